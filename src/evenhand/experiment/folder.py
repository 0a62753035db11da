"""A run's folder: spec.json, metrics.jsonl, timing.jsonl, status.json, the state; each whole or not there."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from evenhand import errors, files
from evenhand.experiment import lock
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec

RECORDS = ("metrics.jsonl", "timing.jsonl")


class Folder:
    """The folder `root/<key>` of one run.

    Attributes
    ----------
    state, previous
        The last checkpoint and the one before it, which is there in case the last one is damaged.
    """

    def __init__(self, root: Path, spec: Spec) -> None:
        self.spec = spec
        self.path = root / spec.key
        self.state = self.path / "state.safetensors"
        self.previous = self.path / "state.previous.safetensors"
        self._lock: lock.Lock | None = None

    @contextmanager
    def locked(self, wait: float = 0) -> Iterator[None]:
        """Hold the folder alone, or wait so many seconds for whoever holds it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise errors.RunError(f"The run folder {self.path} cannot be written: {error.strerror}.") from None
        with lock.held(self.path / lock.NAME, wait) as self._lock:
            self._claim()
            for name in ("spec.json", "status.json", self.state.name, *RECORDS, lock.NAME.lstrip(".")):
                for leftover in self.path.glob(f".{name}.*"):  # of a process that was killed while it wrote
                    leftover.unlink(missing_ok=True)
            yield

    @property
    def begun(self) -> bool:
        """Whether there is a state to go on from."""
        return self.state.exists() or self.previous.exists()

    def _claim(self) -> None:
        """Write the spec, or compare it with the one that is there."""
        path = self.path / "spec.json"
        if path.exists():
            self._own()
        else:
            files.write_json(path, self.spec.model_dump())

    def _own(self) -> None:
        """Compare the spec that is there with ours; one that was written before a field existed has its default."""
        path = self.path / "spec.json"
        try:
            mine = Spec.read(files.read_json(path)) == self.spec
        except (errors.InputError, TypeError):
            mine = False
        if not mine:
            raise errors.RunError(f"{path} belongs to another run. Move that folder away, or use another root.")

    def status(self) -> dict[str, Any]:
        """What status.json says; {} for a run that never began."""
        path = self.path / "status.json"
        status = files.read_json(path) if path.exists() else {}
        if not isinstance(status, dict):
            raise errors.RunError(f"{path} is damaged: it holds no status. Remove its folder to start that run anew.")
        return status

    def mark(self, state: str, **facts: Any) -> None:
        """Write status.json."""
        files.write_json(self.path / "status.json", {"state": state, **facts})

    def records(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl so far."""
        path = self.path / "metrics.jsonl"
        return _lines(path) if path.exists() else []

    def fail(self, error: str, trace: str = "") -> None:
        """Record a failure, beside what is known of the run."""
        self.mark(**{**self.status(), "state": "failed", "error": error, "trace": trace})

    def checkpoint(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Write the state, then the records it holds."""
        if self._lock is not None and not self._lock.still():
            raise errors.BusyError(f"The run {self.path.name} was taken over by another process.")
        files.write_state(self.state, tensors, facts, keep=self.previous)
        self.publish(facts)

    def restore(self) -> tuple[dict[str, Tensor], dict[str, Any], str]:
        """The last state that is whole, and a sentence about one that is not."""
        damage: list[str] = []
        for path in filter(Path.exists, (self.state, self.previous)):
            try:
                tensors, facts = files.read_state(path)
                return tensors, facts, "".join(f"{sentence} Going on from the state before it." for sentence in damage)
            except errors.RunError as error:
                damage.append(str(error))
        raise errors.RunError(f"{damage[0]} Remove the folder to start the run anew.")

    def publish(self, facts: dict[str, Any]) -> None:
        """Write the records of a state as metrics.jsonl and timing.jsonl."""
        for name in RECORDS:
            lines = [json.dumps(line, allow_nan=False) + "\n" for line in facts[name.removesuffix(".jsonl")]]
            files.write(self.path / name, "".join(lines).encode())

    def complete(self, **facts: Any) -> None:
        """Say that the run is done; the digests of its records tell later whether they are what it wrote."""
        self.previous.unlink(missing_ok=True)
        self.mark("done", **facts, digests={name: _digest(self.path / name) for name in RECORDS})

    def result(self) -> Result | None:
        """The result, if the run is done."""
        status = self.status()
        if status.get("state") != "done":
            return None
        self._own()
        try:
            for name, digest in status.get("digests", {}).items():
                if _digest(self.path / name) != digest:
                    raise errors.RunError(f"{self.path / name} is damaged. Remove its folder to run it anew.")
            records, timing = _lines(self.path / "metrics.jsonl"), _lines(self.path / "timing.jsonl")
            result = Result(
                spec=self.spec,
                key=self.spec.key,
                records=records,
                classes=tuple(status["classes"]),
                seconds=sum(line["train_seconds"] + line["test_seconds"] for line in timing),
                environment={**status["environment"], **status["hardware"]},
            )
            if len(records) != self.spec.stages:
                path, held = self.path / "metrics.jsonl", f"{len(records)} of {self.spec.stages} stages"
                raise errors.RunError(f"{path} is damaged: it holds {held}. Remove its folder to run it anew.")
            if not all(_whole(line, stage, self.spec) for stage, line in enumerate(records, 1)):
                raise ValueError("a stage lacks some of its numbers")
            return result
        except (KeyError, TypeError, ValueError, AttributeError):
            raise errors.RunError(f"The records in {self.path} are damaged. Remove the folder to start anew.") from None


def _whole(line: dict[str, Any], stage: int, spec: Spec) -> bool:
    """Whether the record of a stage has all that one has."""
    needed = {"accuracy", "head", "probability", *(["otherwise"] if spec.forms == "both" else [])}
    accuracy = line["accuracy"]
    return needed <= line.keys() and len(accuracy) == stage and all(0 <= value <= 1 for value in accuracy)


def _digest(path: Path) -> str:
    try:
        return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    except OSError:
        raise errors.RunError(f"{path} is missing. Remove its folder to run it anew.") from None


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError):
        raise errors.RunError(f"{path} is damaged. Remove its folder to run it anew.") from None
