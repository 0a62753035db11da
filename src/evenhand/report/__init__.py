"""Reports: one self-contained HTML page about finished runs, with tables and figures."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from evenhand import errors, files
from evenhand.experiment.result import Result

EXTRA = ("jinja2", "markupsafe", "matplotlib")

__all__ = ["optional", "write"]


def write(results: Sequence[Result], path: Path) -> None:
    """Write the page about finished runs, or replace it; the same runs give the same bytes, in any order."""
    if not results:
        raise errors.InputError("There is no finished run to report. Start one with evenhand run.")
    with optional("A report needs"):
        from evenhand.report.html import page
    files.write(path, page(results).encode())


@contextmanager
def optional(who: str) -> Iterator[None]:
    """Import matplotlib and jinja2, an optional extra, or say who needs them."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in EXTRA:
            raise
        raise errors.missing(who, library, "report") from None
