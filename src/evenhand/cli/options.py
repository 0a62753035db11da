"""Options that several commands share: the settings of a run, its execution, and single flags."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cyclopts import Group, Parameter

from evenhand.core.settings import CONDITIONS, DEFAULTS, RUN, Conditions, Setting

if TYPE_CHECKING:
    from evenhand.experiment.engine.queue import Outcome
    from evenhand.experiment.spec import Spec

Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
Json = Annotated[Flag, Parameter(help="Print one JSON document and nothing else.")]
Anyway = Annotated[
    Flag,
    Parameter(help="Resume runs even if versions, threads, precision or compilation changed; this may change results."),
]
Root = Annotated[Path, Parameter(help="Directory with one subfolder per run.")]
DataDir = Annotated[Path | None, Parameter(help="Directory to look for datasets in; overrides EVENHAND_DATA.")]
Track = Annotated[
    str | None,
    Parameter(
        help="Also log to tensorboard, mlflow, wandb or your own module:attribute; separate several with commas."
    ),
]
NOT_FLAGS = ("method", "seed", "tested")  # settings that the commands take in other ways
T = TypeVar("T")


def flags(settings: Mapping[str, Setting], *, optional: bool) -> Callable[[type[T]], type[T]]:
    """Make a class a dataclass of options, with a flag for each declared setting; optional ones default to None."""

    def extend(options: type[T]) -> type[T]:
        for name, setting in settings.items():
            if name not in NOT_FLAGS:
                hint = setting.hint | None if optional else setting.hint
                options.__annotations__[name] = Annotated[hint, Parameter(help=_help(setting, optional))]
                setattr(options, name, None if optional else setting.default)
        return dataclass(frozen=True)(options)

    return extend


def _help(setting: Setting, optional: bool) -> str:
    """The help of a setting, with its default unless that goes without saying."""
    if not optional or setting.default in (None, False, ""):
        return setting.help
    varies = any(setting.name in own for own in DEFAULTS.values())
    return f"{setting.help} [default: {'depends on --data' if varies else setting.default}]"


@Parameter(name="*", group=Group("Run", sort_key=1))
@flags(RUN, optional=True)
class RunSettings:
    """The settings of a run except its method and seed; the dataset's defaults fill in those not given.

    Parameters
    ----------
    preset
        How the network sees images: plain (raw), or paper (with augmented views), the default for the paper's datasets.
    """

    data_dir: DataDir = None
    preset: str | None = None

    def fields(self) -> dict[str, Any]:
        """The fields of a spec that were given."""
        return {name: value for name in RUN if (value := getattr(self, name, None)) is not None}


@Parameter(name="*", group=Group("Execution", sort_key=2))
@flags(CONDITIONS, optional=False)
class Execution:
    """How and where runs are executed.

    Parameters
    ----------
    engine
        How to execute runs: one after another (inline), in parallel processes, or on a Ray cluster; auto picks inline
        or processes.
    address
        Address of the Ray cluster. The default is a cluster on this machine, started if there is none.
    workers
        Number of runs at the same time; by default as many as there are cores for. On one machine, workers x threads
        must not exceed the number of cores.
    threads
        Threads per run, by default the cores divided by the workers; on a cluster, CPUs per run.
    gpus
        GPUs per run on a cluster; with a fraction, runs share one.
    shared
        All nodes of the cluster see the root, so runs write to it, and resume elsewhere if their node is lost.
    retries
        How often to retry a run that crashed or lost its worker.
    """

    engine: Literal["auto", "inline", "processes", "ray"] = "auto"
    address: str | None = None
    workers: int | None = None
    threads: int | None = None
    gpus: float = 0
    shared: Flag = False
    retries: int = 2

    def check(self) -> None:
        """Raise for an invalid option before anything is loaded."""
        from evenhand import errors

        errors.whole("The number of --retries", self.retries, 0)
        errors.number("The number of --gpus", self.gpus, 0)
        for name, value in (("workers", self.workers), ("threads", self.threads)):
            if value is not None:
                errors.whole(f"The number of --{name}", value, 1)
        if self.engine != "ray" and (self.address or self.gpus or self.shared):
            raise errors.InputError("--address, --gpus and --shared need --engine ray.")
        if self.engine == "inline" and (self.workers or 1) > 1:
            raise errors.wrong("The number of --workers", "be 1 with --engine inline", self.workers)

    def changed(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        return {name: value for name, value in vars(self).items() if value != getattr(EXECUTION, name)}

    def run(self, specs: "Sequence[Spec]", root: Path, **options: Any) -> "list[Outcome]":
        """Execute runs with a live view, one for all specs that train alike.

        `options` are further fields of `RunOptions`.
        """
        from evenhand.cli.live import Watch
        from evenhand.experiment.engine.dispatch import run_all
        from evenhand.experiment.engine.queue import RunOptions
        from evenhand.experiment.result import Result
        from evenhand.experiment.trainings import plan

        conditions = Conditions(**{name: getattr(self, name) for name in CONDITIONS})
        cluster: dict[str, Any] = {"address": self.address, "gpus": self.gpus, "shared": self.shared}
        run_options = RunOptions(conditions, retries=self.retries, **cluster, **options)
        cpus = {"workers": self.workers, "threads": self.threads}
        answering = plan(specs, [root])
        runs = list(dict.fromkeys(answering.values()))
        with Watch(runs, until=run_options.until) as watch:
            outcomes = run_all(runs, root, run_options, engine=self.engine, **cpus, listen=watch)
        ended = dict(zip(runs, outcomes, strict=True))
        pairs = [(ended[answering[spec]], spec) for spec in specs]
        return [outcome.tested_as(spec) if isinstance(outcome, Result) else outcome for outcome, spec in pairs]

    def at_once(self, trials: int, seeds: int) -> int:
        """How many points of a search to try at the same time: as many as the workers can run with all seeds."""
        from evenhand.experiment.engine.queue import Allocation

        if self.engine == "inline":
            return 1
        workers, threads = self.workers, self.threads
        if self.engine != "ray" or workers is None:  # the number of cores of a cluster is unknown here
            workers = Allocation.of(trials * seeds, workers, threads if self.engine != "ray" else None).workers
        return workers // seeds or 1


def print_json(value: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(value, indent=2, allow_nan=False))


RUN_SETTINGS, EXECUTION = RunSettings(), Execution()
