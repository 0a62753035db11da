"""What runs there are below a root: a row for each, whatever state its folder is in."""

import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from evenhand import errors, files, metrics
from evenhand.experiment import lock
from evenhand.experiment.folder import Folder
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec

FAULTS = (errors.EvenhandError, OSError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
KEY = re.compile(r".+-m\d+-s\d+-[0-9a-f]{12}")
OWN = ("state", "progress", "accuracy", "forgetting", "seconds", "touched", "key", "note")  # besides those of a spec


@dataclass(frozen=True)
class Row:
    """One run folder, or what looks like one.

    Attributes
    ----------
    spec
        None if it cannot be read.
    state
        done; running, which is one that somebody holds; stopped, which the same command goes on with; failed; outdated,
        whose key is that of an older revision; damaged.
    note
        What there is to say about the state: the error, who holds it, what is damaged.
    stage
        Stages that have ended.
    accuracy, forgetting
        After the last stage, or after the last one so far.
    seconds
        Training and testing time of the stages that have ended.
    """

    path: Path
    spec: Spec | None = None
    state: str = "damaged"
    note: str = ""
    stage: int = 0
    accuracy: float | None = None
    forgetting: float | None = None
    seconds: float | None = None
    touched: datetime | None = None

    @property
    def key(self) -> str:
        """The name of the folder."""
        return _printable(self.path.name)

    @property
    def progress(self) -> float | None:
        """The share of the stages that have ended."""
        return None if self.spec is None else self.stage / self.spec.stages

    @property
    def sentence(self) -> str:
        """The note, with the run that it is about."""
        return self.note if self.key in self.note else f"{self.key}: {self.note}"

    def value(self, field: str) -> Any:
        """Any field of the spec or of the row; None where it is missing."""
        return getattr(self.spec, field, None) if field in Spec.model_fields else getattr(self, field)

    def fields(self) -> dict[str, Any]:
        """All of them, as JSON can hold them."""
        touched = self.touched and self.touched.isoformat(timespec="seconds")
        return {field: self.value(field) for field in (*Spec.model_fields, *OWN)} | {"touched": touched}


def inventory(root: Path) -> list[Row]:
    """All runs below a root, in order of their keys; one that is damaged is a row like any other."""
    if not root.is_dir():
        raise errors.RunError(f"There is no folder {root} with runs.")
    try:
        rows = [read(path) for path in sorted(root.iterdir()) if _looks_like_a_run(path)]
    except OSError as error:
        raise errors.RunError(f"The folder {root} cannot be read: {error.strerror}.") from None
    if not rows:
        deeper = sorted({str(path.parent.parent) for path in root.glob("*/*/spec.json")})
        hint = f"There are some in {', '.join(deeper)}." if deeper else "Make one with evenhand run."
        raise errors.RunError(f"There is no run in {root}. {hint}")
    return rows


def results(rows: Sequence[Row]) -> list[Result]:
    """The results of those that are done."""
    done = [Folder(row.path.parent, row.spec) for row in rows if row.state == "done" and row.spec]
    return [result for folder in done if (result := folder.result())]


def read(path: Path, ours: bool = False) -> Row:
    """Read a run's folder.

    Parameters
    ----------
    ours
        Whether it is we who hold its lock.
    """
    row = _read(path, ours)
    return replace(row, note=_printable(row.note))


def _read(path: Path, ours: bool) -> Row:
    row = Row(path)
    try:
        row = replace(row, touched=_touched(path))
        row = replace(row, spec=(spec := Spec.read(files.read_json(path / "spec.json"))))
        if not _fits(path.name, spec):
            return replace(row, note=f"{path} has the spec of another run, {spec.key}.")
        status = _status(path)
        row = _with_records(row, spec, done=status.get("state") == "done")
        state, note = _state(row, spec, status, None if ours else lock.holder(path / lock.NAME))
        return replace(row, state=state, note=note)
    except errors.RunError as error:
        return replace(row, note=str(error))
    except errors.InputError as error:
        return replace(row, note=f"{path / 'spec.json'} cannot be used: {error}")
    except FAULTS:
        part = "spec" if row.spec is None else "records"
        return replace(row, note=f"{path} is damaged: its {part} cannot be read.")


def _state(row: Row, spec: Spec, status: dict[str, Any], holder: str | None) -> tuple[str, str]:
    said = status.get("state", "running")
    if holder is not None:
        return "running", f"Held by {holder}."
    if row.key != spec.key:
        return "outdated", f"The same run is called {spec.key} now."
    if said == "failed":
        return "failed", str(status.get("error", ""))
    if said == "running":  # and nobody holds it: it was stopped, or killed
        return "stopped", ""
    if said == "done":
        return "done", ""
    return "damaged", f"{row.path / 'status.json'} is damaged: there is no state {errors.shown(said)}."


def _looks_like_a_run(path: Path) -> bool:
    """Whether it has a spec, or has lost the one it had."""
    named = KEY.fullmatch(path.name) is not None
    try:
        return path.is_dir() and any(
            (path / name).exists() for name in ("spec.json", *(named * ("status.json", "metrics.jsonl")))
        )
    except OSError:  # it cannot be looked into
        return named


def _fits(name: str, spec: Spec) -> bool:
    """Whether a folder's name is the spec's key, or was under another revision of its method."""
    return KEY.fullmatch(name) is not None and name.rpartition("-")[0] == spec.key.rpartition("-")[0]


def _touched(path: Path) -> datetime:
    """When a record or a state was last written; locks are touched by whoever looks."""
    times = []
    for file in path.iterdir():
        with suppress(FileNotFoundError):  # somebody writes there
            times += [] if file.name.startswith(".") else [file.stat().st_mtime]
    return datetime.fromtimestamp(int(max(times, default=path.stat().st_mtime))).astimezone()


def _status(path: Path) -> dict[str, Any]:
    status = files.read_json(path / "status.json") if (path / "status.json").exists() else {}
    if not isinstance(status, dict):
        raise errors.RunError(f"{path / 'status.json'} is damaged: it holds no status.")
    return status


def _with_records(row: Row, spec: Spec, done: bool) -> Row:
    """The row with the numbers of its records, those so far if it is not done."""
    if done and row.key == spec.key and (result := Folder(row.path.parent, spec).result()):
        records, seconds = result.records, result.seconds
    else:
        records, timing = _lines(row.path / "metrics.jsonl"), _lines(row.path / "timing.jsonl")
        seconds = math.fsum(line["train_seconds"] + line["test_seconds"] for line in timing)
    matrix = [record["accuracy"] for record in records]
    if (done and len(matrix) != spec.stages) or not _triangular(matrix):
        raise errors.RunError(
            f"{row.path / 'metrics.jsonl'} is damaged: it holds {len(matrix)} of {spec.stages} stages."
        )
    if not matrix:
        return row
    accuracy, forgetting = metrics.average(matrix), metrics.forgetting(matrix)
    if not all(map(math.isfinite, (accuracy, forgetting or 0, seconds))):
        raise ValueError("not finite")
    return replace(row, stage=len(matrix), accuracy=accuracy, forgetting=forgetting, seconds=seconds)


def _triangular(matrix: Sequence[Sequence[float]]) -> bool:
    return all(len(line) == i + 1 for i, line in enumerate(matrix))


def _printable(text: str) -> str:
    """A text that any terminal takes: names on a disk need not be in UTF-8."""
    return text.encode(errors="replace").decode()


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
