"""Many runs: finished ones are reused, and an engine runs the rest."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from evenhand import errors
from evenhand.core import inputs
from evenhand.core.precision import chosen
from evenhand.core.settings import Conditions
from evenhand.experiment.engine.processes import run_in_processes, run_inline
from evenhand.experiment.engine.queue import Allocation, Listener, Outcome, Reused, RunOptions, RunQueue, cores
from evenhand.experiment.folder import Folder
from evenhand.experiment.result import Result
from evenhand.experiment.run import Note, finished_result
from evenhand.experiment.spec import Spec

ENGINES = ("auto", "inline", "processes", "ray")


def run_all(
    specs: Sequence[Spec],
    root: Path,
    options: RunOptions | None = None,
    *,
    engine: str = "auto",
    workers: int | None = None,
    threads: int | None = None,
    listen: Listener = lambda _: None,
) -> list[Outcome]:
    """Run the specs that are not finished, and return all outcomes in order.

    An interrupted run keeps its number of threads, since its bits depend on it. If there are too few cores for that, it
    fails with a message, and the others run.
    """
    errors.choice("The 'engine'", engine, ENGINES)
    options = options or RunOptions()
    reused = _finished(dict.fromkeys(specs), root)
    missing = [spec for spec in dict.fromkeys(specs) if spec.key not in reused]
    listen(Reused(len(reused), len(reused) + len(missing)))
    wanted = options.conditions.recorded() | ({"threads": threads} if threads else {})
    for name, value in wanted.items():
        known = [{"precision": "fp32", **result.environment} for result in reused.values()]  # older runs do not say
        if others := sum(environment.get(name, value) != value for environment in known):
            runs = "1 run" if others == 1 else f"{others} runs"
            listen(Note("", f"Reusing {runs} made with a different --{name}. To run again, use another --root."))
    kept = {} if threads is not None else _kept_threads(missing, root, None if engine == "ray" else cores())
    if workers is None and len(set(kept.values())) == 1:
        threads = max(kept.values())
    queue = RunQueue(missing, root, options, listen, kept)
    if missing:
        _run(queue, engine, workers, threads)
    outcomes = {**reused, **queue.outcomes}
    return [outcomes[spec.key] for spec in specs]


def _finished(specs: Iterable[Spec], root: Path) -> dict[str, Result]:
    """Results of the finished specs, by key. A damaged run counts as unfinished: running it reports the damage."""
    results = {}
    for spec in specs:
        with suppress(errors.RunError):
            if result := finished_result(Folder(root, spec)):
                results[spec.key] = result
    return results


def _kept_threads(specs: Iterable[Spec], root: Path, limit: int | None) -> dict[str, int]:
    """Threads of interrupted runs, by key, unless they exceed the limit."""
    kept = {}
    for spec in specs:
        folder = Folder(root, spec)
        with suppress(errors.RunError, KeyError):  # running a damaged run reports the damage
            threads = folder.status()["environment"]["threads"]
            if folder.begun and type(threads) is int and 1 <= threads <= (limit or threads):
                kept[spec.key] = threads
    return kept


def _run(queue: RunQueue, engine: str, workers: int | None, threads: int | None) -> None:
    if engine == "ray":
        from evenhand.experiment.engine.cluster import run_on_cluster  # imports Ray

        run_on_cluster(queue, workers, threads or 1)
        return
    cpus = Allocation.of(1 if engine == "inline" else len(queue), 1 if engine == "inline" else workers, threads)
    most = max(queue.threads.values(), default=1)
    if cpus.workers * most > cores():  # some runs keep more threads than a worker gets
        cpus = Allocation.of(len(queue), cores() // most, threads)
    queue.listen(Note("", _choice(cpus, len(queue), queue.options.conditions)))
    if engine == "inline" or (engine == "auto" and cpus.workers == 1):
        run_inline(queue, cpus.threads)
    else:
        run_in_processes(queue, cpus.workers, cpus.threads)


def _choice(cpus: Allocation, runs: int, conditions: Conditions) -> str:
    """A sentence about how runs are executed.

    >>> _choice(Allocation(2, 1), 6, Conditions())
    'Running 6 runs: 2 at a time, 1 thread each, in fp32.'
    """
    several = f"{runs} runs: {min(runs, cpus.workers)} at a time, " if runs > 1 else "1 run: "
    threads = f"{cpus.threads} thread{'' if cpus.threads == 1 else 's'}{' each' if runs > 1 else ''}"
    precision: str = conditions.precision
    if precision == "auto":  # only then, since it warns about bf16
        precision = chosen(precision, inputs.device("auto"))
    return f"Running {several}{threads}, in {precision}."
