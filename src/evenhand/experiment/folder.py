"""A run's folder: spec.json, metrics.jsonl, timing.jsonl, status.json, the state; each whole or not there."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from evenhand import errors, files
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec


class Folder:
    """The folder `root/<key>` of one run."""

    def __init__(self, root: Path, spec: Spec) -> None:
        self.spec = spec
        self.path = root / spec.key
        self.state = self.path / "state.safetensors"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder alone; the lock dies with the process that holds it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / ".lock").open("a+")
        except OSError as error:
            raise errors.RunError(f"The run folder {self.path} cannot be written: {error.strerror}.") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                raise errors.RunError(
                    f"The run {self.path.name} is being made by another process ({lock.read().strip() or 'unknown'})."
                ) from None
            lock.truncate(0)
            lock.write(f"process {os.getpid()}")
            lock.flush()
            self._claim()
            yield

    def _claim(self) -> None:
        """Write the spec, or compare it with the one that is there."""
        path = self.path / "spec.json"
        if not path.exists():
            files.write_json(path, self.spec.model_dump())
        elif not self._mine(files.read_json(path)):
            raise errors.RunError(f"{path} belongs to another run. Move that folder away, or use another root.")

    def _mine(self, fields: Any) -> bool:
        """Whether a spec on disk is ours; one that was written before a field existed has its default."""
        try:
            return Spec.read(fields) == self.spec
        except (errors.InputError, TypeError):
            return False

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

    def checkpoint(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Write the state, then the records it holds."""
        files.write_state(self.state, tensors, facts)
        self.publish(facts)

    def publish(self, facts: dict[str, Any]) -> None:
        """Write the records of a state as metrics.jsonl and timing.jsonl."""
        for name in ("metrics", "timing"):
            lines = [json.dumps(line, allow_nan=False) + "\n" for line in facts[name]]
            files.write(self.path / f"{name}.jsonl", "".join(lines).encode())

    def result(self) -> Result | None:
        """The result, if the run is done."""
        status = self.status()
        if status.get("state") != "done":
            return None
        timing = _lines(self.path / "timing.jsonl")
        try:
            return Result(
                spec=self.spec,
                key=self.spec.key,
                records=_lines(self.path / "metrics.jsonl"),
                classes=tuple(status["classes"]),
                seconds=sum(line["train_seconds"] + line["test_seconds"] for line in timing),
                environment={**status["environment"], **status["hardware"]},
            )
        except (KeyError, TypeError):
            raise errors.RunError(f"The records in {self.path} are damaged. Remove the folder to start anew.") from None


def results(root: Path) -> list[Result]:
    """The results of all finished runs below a root, in order of their keys."""
    if not root.is_dir():
        raise errors.RunError(f"There is no folder {root} with runs.")
    found = []
    for path in sorted(root.glob("*/spec.json")):
        folder = Folder(root, Spec.read(files.read_json(path)))
        if folder.path == path.parent and (result := folder.result()):
            found.append(result)
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError):
        raise errors.RunError(f"{path} is damaged. Remove its folder to run it anew.") from None
