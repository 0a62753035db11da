"""The `evenhand` command with all subcommands; errors become one sentence."""

import errno
import io
import os
import sys

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console

from evenhand import __version__
from evenhand.cli.bench import bench
from evenhand.cli.check import check
from evenhand.cli.compare import compare
from evenhand.cli.data import data
from evenhand.cli.grid import grid
from evenhand.cli.methods import methods
from evenhand.cli.paper import paper
from evenhand.cli.prune import prune
from evenhand.cli.report import report
from evenhand.cli.run import run
from evenhand.cli.runs import runs
from evenhand.cli.tune import tune
from evenhand.errors import EvenhandError

app = App(
    name="evenhand",
    help="Online continual learning that treats old and new classes with an even hand.",
    version=__version__,
    default_parameter=Parameter(negative=()),
)
ARGUMENTS = {  # as the usage names them; cyclopts would call them ARGS
    "run": "METHODS...",
    "runs": "[COMMAND] [ROOT]",
    "paper": "[ITEM]",
    "methods": "[PATTERN]",
    "report": "[ROOT]",
    "runs compare": "[ROOT]",
    "runs prune": "[ROOT]",
}
for command in (run, grid, tune, runs, paper, data, methods, report, check, bench):
    app.command(command)
runs.command(compare)
runs.command(prune)
for name, arguments in ARGUMENTS.items():
    app.parse_commands(name)[1][-1].usage = f"Usage: evenhand {name} [OPTIONS] {arguments}"


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a user error prints one sentence and exits with code 2."""
    # By default idle OpenMP threads spin and take cores away from other processes.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if "" not in sys.path:
        sys.path.append("")  # for module:attribute; last, so that it shadows nothing
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr: not every terminal can show ± or a name
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
    except BrokenPipeError:  # the reader has closed the pipe, as head does
        _drop_output()
        sys.exit(1)
    except OSError as error:  # e.g. a path without permission, or with a name that is too long
        if error.filename is None and error.errno != errno.ENOSPC:
            raise
        sentence = f"{error.filename or 'The output'} cannot be used: {error.strerror}."
        if error.filename is None:
            _drop_output()
    Console(stderr=True).print(sentence, style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(2)


def _drop_output() -> None:
    """Let what stdout has not written yet go nowhere, or Python would fail to write it as it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
