"""The command line: `evenhand run`, `grid`, `tune`, `runs`, `paper`, `data`, `methods`, `report`, `check`, `bench`.

Torch is imported inside the commands, so that help is there at once.
"""

import fnmatch
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console

from evenhand import __version__
from evenhand.cli_data import data as data_app
from evenhand.cli_data import use
from evenhand.cli_grid import conclude, grid, ready, sinks, tune
from evenhand.cli_options import COMPILE, PLACE, SETTING, Compile, Flag, Place, Setting, print_json
from evenhand.cli_paper import paper
from evenhand.cli_runs import name_left_out, runs
from evenhand.errors import EvenhandError, InputError

app = App(
    name="evenhand",
    help="Online continual learning that treats old and new classes with an even hand.",
    version=__version__,
    default_parameter=Parameter(negative=()),
)
app.command(data_app)
app.command(grid)
app.command(paper)
app.command(runs)
app.command(tune)


@app.command
def run(
    *methods: str,
    tested: Literal["test", "validation"] | None = None,
    seeds: int | None = None,
    seed: int | None = None,
    setting: Setting = SETTING,
    place: Place = PLACE,
    compile: Compile = "auto",
    track: str = "",
    root: Path = Path("runs"),
    anyway: Flag = False,
    json: Flag = False,
) -> int:
    """Run methods on a stream: what is missing is run, what was stopped goes on, what is there is read.

    Parameters
    ----------
    methods
        Names with their parameters, e.g. er "uer(alpha=0.3)".
    tested
        With the test samples, or with a tenth of the training samples held out, to choose parameters.
    seeds
        Run the seeds 0 to K - 1.
    seed
        Run this seed alone.
    compile
        Make the network faster with torch.compile; auto does so in runs that are long enough to pay for it.
    track
        Tell others of the records as well, with commas between: tensorboard, mlflow, wandb, module:attribute.
    root
        The folder below which every run has its own.
    anyway
        Go on with a run that was begun under other versions or threads, though its bits may then differ.
    json
        Print one JSON document and nothing else.
    """
    from evenhand.experiment.spec import Spec

    if not methods:
        raise InputError("Name at least one method, e.g. evenhand run er uer. The names: evenhand methods.")
    if seeds is not None and seed is not None:
        raise InputError("Use either --seeds K for the seeds 0 to K - 1, or --seed S for one.")
    if seeds is not None and seeds < 1:
        raise InputError(f"The number of --seeds must be at least 1. Got {seeds} instead.")
    fields = setting.fields() | ({"tested": tested} if tested else {})
    numbers = [seed] if seed is not None else range(seeds or 1)
    specs = [Spec.make(setting.preset, method=name, seed=number, **fields) for name in methods for number in numbers]
    place.check()
    use(setting.data_dir)
    ready(specs, root)
    how = {"anyway": anyway, "compile": COMPILE[compile], "track": sinks(track)}
    return conclude(place.run(list(dict.fromkeys(specs)), root, **how), json)


@app.command
def methods(pattern: str = "*", *, json: Flag = False) -> None:
    """List the methods: what they cost, and in which slots they differ from ER.

    Parameters
    ----------
    pattern
        Names to list, with * and ?.
    json
        Print one JSON document.
    """
    from evenhand import catalogue, show

    rows = [row for row in catalogue.rows() if fnmatch.fnmatch(row["name"], pattern)]
    if not rows:
        raise InputError(f"No method matches '{pattern}'. All of them: evenhand methods.")
    if json:
        print_json({"schema": 1, "methods": rows})
    else:
        show.stdout().print(show.methods_table(rows))


@app.command
def report(
    root: Path = Path("runs"), *, output: Annotated[Path, Parameter(name=["--output", "-o"])] = Path("report.html")
) -> None:
    """Write one self-contained HTML page about all finished runs below a root; damaged and outdated ones are left out.

    Parameters
    ----------
    root
        The folder with the runs.
    output
        The page to write.
    """
    from evenhand import report as page
    from evenhand.experiment.inventory import inventory, results

    rows = inventory(root)
    name_left_out(rows)
    found = results(rows)
    if not found:
        raise InputError(f"There is no finished run in {root}. Make one with evenhand run.")
    page.write(found, output)
    print(f"{output}: {len(found)} runs")


@app.command
def check(name: str, *, json: Flag = False) -> int:
    """Check that a method keeps its promises: resume, purity, bounded memory, learning and more.

    Parameters
    ----------
    name
        A registered method, e.g. mir+uer, or module:attribute, a function that makes one.
    json
        Print one JSON document.
    """
    from evenhand import checks

    outcomes = checks.run(checks.find(name))
    if json:
        print_json({"schema": 1, "method": name, "checks": [vars(outcome) for outcome in outcomes]})
    else:
        for outcome in outcomes:
            print(f"{outcome.state:7} {outcome.check}{outcome.detail and ': ' + outcome.detail}")
    return 1 if any(outcome.state == "failed" for outcome in outcomes) else 0


@app.command
def bench(
    *,
    parts: str | None = None,
    methods: str | None = None,
    rounds: int | None = None,
    threads: int | None = None,
    flame: Path | None = None,
    json: Flag = False,
) -> None:
    """Measure speed against plain PyTorch loops and the machine's peak; leave the machine alone meanwhile.

    Parameters
    ----------
    parts
        What to measure, with commas between: steps, evaluation, scaling, processes, load, methods; or all. The first
        two by default.
    methods
        Time these methods against ER, with commas between, and count their C_D; "all" for every one.
    rounds
        Interleaved rounds (30); their medians are printed.
    threads
        Threads to use; all cores by default.
    flame
        Draw one step of UER as a flame graph into this SVG file instead.
    json
        Print one JSON document.
    """
    from evenhand import bench as benchmark

    if flame is not None:
        if parts is not None or methods is not None or rounds is not None or json:
            raise InputError("--flame draws one step and measures nothing: of the other options it takes --threads.")
        benchmark.draw_step(flame, threads)
        print(flame)
        return
    parts = parts or ("methods" if methods else "steps,evaluation")
    chosen = list(benchmark.PARTS) if parts == "all" else [part.strip() for part in parts.split(",")]
    if methods and "methods" not in chosen:
        raise InputError(f"--methods belongs to the part methods, which --parts {parts} leaves out.")
    measured = benchmark.measure(chosen, 30 if rounds is None else rounds, threads, methods)
    if json:
        print_json(measured)
    else:
        benchmark.show(measured)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a user's mistake is one sentence and exit code 2."""
    # Without this, idle OpenMP threads spin and take the cores from whoever shares the machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if "" not in sys.path:
        sys.path.append("")  # where module:attribute is looked for; last, so that it hides nothing
    try:
        code = app(arguments, exit_on_error=False, print_error=False)
        sys.stdout.flush()
        sys.exit(code)
    except CycloptsError as error:
        sentence = " ".join(str(error).split())
    except EvenhandError as error:
        sentence = str(error)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output has had enough, such as head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    Console(stderr=True).print(sentence, style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(2)
