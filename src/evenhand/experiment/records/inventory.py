"""The runs below a root: one entry per run folder, whatever state it is in."""

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from evenhand import errors, files, metrics
from evenhand.experiment import lock
from evenhand.experiment.folder import METRICS, TIMING, Folder, seconds
from evenhand.experiment.result import Result, grouped
from evenhand.experiment.spec import Spec

FAULTS = (errors.EvenhandError, OSError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
KEY = re.compile(r".+-m\d+-s\d+-[0-9a-f]{12}")
# Fields besides those of a spec.
OWN = ("state", "progress", "accuracy", "forgetting", "precision", "seconds", "touched", "key", "note")


@dataclass(frozen=True)
class RunEntry:
    """One run folder.

    Its state is done; running: a live process holds it; stopped: the same command resumes it; failed; outdated: its key
    belongs to an older definition of the method; damaged.
    """

    path: Path
    spec: Spec | None = None  # None if it cannot be read
    state: str = "damaged"
    note: str = ""  # details of the state: the error, the holder, or what is damaged
    stage: int = 0  # number of finished stages
    accuracy: float | None = None  # after the last finished stage, like the forgetting
    forgetting: float | None = None
    precision: str = "fp32"
    seconds: float | None = None  # training and testing time of the finished stages
    touched: datetime | None = None  # when a file of the run was last written
    result: Result | None = field(default=None, repr=False)  # of a finished run, if it was read with results

    @property
    def key(self) -> str:
        """Name of the folder."""
        return _printable(self.path.name)

    @property
    def progress(self) -> float | None:
        """Share of the stages that are finished."""
        return None if self.spec is None else self.stage / self.spec.stages

    @property
    def message(self) -> str:
        """The note, with the name of the run."""
        return self.note if self.key in self.note else f"{self.key}: {self.note}"

    def value(self, field: str) -> Any:
        """Any field of the spec or of the entry; None if it is missing."""
        return getattr(self.spec, field, None) if field in Spec.model_fields else getattr(self, field)

    def fields(self) -> dict[str, Any]:
        """All fields as JSON."""
        touched = self.touched and self.touched.isoformat(timespec="seconds")
        return {field: self.value(field) for field in (*Spec.model_fields, *OWN)} | {"touched": touched}


def inventory(root: Path, with_results: bool = False) -> list[RunEntry]:
    """All runs below a root in order of their keys, even damaged ones; with the results of finished ones if wanted."""
    if not root.is_dir():
        raise errors.RunError(
            f"{root} is a file, not a folder of runs." if root.exists() else f"There is no folder {root}."
        )
    try:
        paths = [path for path in sorted(root.iterdir()) if _looks_like_a_run(path)]
    except OSError as error:
        raise errors.RunError(f"The folder {root} cannot be read: {error.strerror}.") from None
    if not paths:
        deeper = sorted({str(path.parent.parent) for path in root.glob("*/*/spec.json")})
        hint = f"There are some in {', '.join(deeper)}." if deeper else "Start one with evenhand run."
        raise errors.RunError(f"The folder {root} has no runs. {hint}")
    return [read_entry(path, with_result=with_results) for path in paths]


def results(entries: Sequence[RunEntry]) -> list[Result]:
    """The results of entries that were read with them: one for each way in which a run was tested."""
    rows = [row for entry in entries if entry.result for row in entry.result.rows()]
    return [same[0] for same in grouped(rows, lambda row: row.spec).values()]


def by_test(entries: Sequence[RunEntry]) -> list[RunEntry]:
    """Entries that were read with results, one for each way in which a run was tested, under the name of its row."""
    rows = []
    for entry in entries:
        for row in entry.result.rows() if entry.result else ():
            accuracy, forgetting = metrics.average(row.accuracy), metrics.forgetting(row.accuracy)
            rows.append(replace(entry, spec=row.spec, accuracy=accuracy, forgetting=forgetting, result=row))
        rows += [] if entry.result else [entry]
    return rows


def read_entry(path: Path, ours: bool = False, with_result: bool = False) -> RunEntry:
    """Read the folder of a run, whose lock may be `ours`, and the result of a finished run if wanted."""
    facts: dict[str, Any] = {}  # what can be read, up to the first damage
    try:
        facts["touched"] = _touched(path)
        facts["spec"] = spec = Spec.read(files.read_json(path / "spec.json"))
        if not _fits(path.name, spec):
            raise errors.RunError(f"{path} has the spec of another run, {spec.key}.")
        folder = Folder(path.parent, spec, path.name)
        status = folder.status()
        facts |= _numbers(folder, done=status.get("state") == "done")
        facts["precision"] = str(status.get("environment", {}).get("precision", "fp32"))  # older runs do not say
        facts["state"], facts["note"] = _state(folder, status, None if ours else lock.holder(path / lock.NAME))
    except errors.RunError as error:
        facts["note"] = str(error)
    except errors.InputError as error:
        facts["note"] = f"{path / 'spec.json'} is invalid: {error}"
    except FAULTS:
        facts["note"] = f"{path} is damaged: its {'records' if 'spec' in facts else 'spec'} cannot be read."
    if not with_result or facts.get("state") != "done":
        facts["result"] = None
    return RunEntry(path, **{**facts, "note": _printable(facts["note"])})


def _state(folder: Folder, status: dict[str, Any], holder: str | None) -> tuple[str, str]:
    """The state of a run and a note about it."""
    state = status.get("state", "running")
    if holder is not None:
        return "running", f"Held by {holder}."
    if folder.path.name != folder.spec.key:
        return "outdated", f"The key of this run is now {folder.spec.key}."
    if state == "failed":
        return "failed", str(status.get("error", ""))
    if state in ("running", "done"):  # running although nobody holds it: it was stopped or killed
        return "stopped" if state == "running" else "done", ""
    return "damaged", f"{folder.path / 'status.json'} is damaged: unknown state {errors.shown(state)}."


def _numbers(folder: Folder, done: bool) -> dict[str, Any]:
    """What the records say about the finished stages, and the result of a finished run."""
    result = folder.result() if done and folder.path.name == folder.spec.key else None
    matrix = [record["accuracy"] for record in (result.records if result else folder.records(METRICS))]
    time = result.seconds if result else seconds(folder.records(TIMING))
    complete = len(matrix) == folder.spec.stages or not done
    if not complete or any(len(row) != stage for stage, row in enumerate(matrix, 1)):
        stages = f"{len(matrix)} of {folder.spec.stages} stages"
        raise errors.RunError(f"{folder.path / METRICS} is damaged: it has {stages}.")
    if not matrix:
        return {}
    accuracy, forgetting = metrics.average(matrix), metrics.forgetting(matrix)
    if not all(map(math.isfinite, (accuracy, forgetting or 0, time))):
        raise ValueError("not finite")
    numbers = {"accuracy": accuracy, "forgetting": forgetting, "seconds": time}
    return {"stage": len(matrix), **numbers, "result": result}


def _looks_like_a_run(path: Path) -> bool:
    """Whether a folder has a spec, or the name and the records of a run that lost its spec."""
    named = KEY.fullmatch(path.name) is not None
    try:
        return path.is_dir() and any(
            (path / name).exists() for name in ("spec.json", *(named * ("status.json", METRICS)))
        )
    except OSError:  # it cannot be read
        return named


def _fits(name: str, spec: Spec) -> bool:
    """Whether a folder is named by the key of the spec, or by its key under another definition of the method."""
    return KEY.fullmatch(name) is not None and name.rpartition("-")[0] == spec.key.rpartition("-")[0]


def _touched(path: Path) -> datetime:
    """When a record or a state was last written. Hidden files do not count: reading an entry touches locks."""
    times = []
    for file in path.iterdir():
        with suppress(FileNotFoundError):  # a process is writing there
            times += [] if file.name.startswith(".") else [file.stat().st_mtime]
    return datetime.fromtimestamp(int(max(times, default=path.stat().st_mtime))).astimezone()


def _printable(text: str) -> str:
    """A text that any terminal can print: names on a disk need not be UTF-8."""
    return text.encode(errors="replace").decode()
