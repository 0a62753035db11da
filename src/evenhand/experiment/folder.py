"""The folder of one run: spec.json, metrics.jsonl, timing.jsonl, status.json and its state, each written atomically."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from evenhand import errors, files
from evenhand.experiment import lock
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec

METRICS, TIMING = RECORDS = ("metrics.jsonl", "timing.jsonl")
STATES = ("state.safetensors", "state.previous.safetensors")
# Removed in this order, so that an interrupted removal can be finished: status.json still says that the run failed.
WRITTEN = (*STATES, *RECORDS, "status.json", "spec.json")


class Folder:
    """The folder of one run: `root/<key>`, or that of an older key, `root/name`.

    Its `state` is the last checkpoint, `previous` the one before it, in case the last one is damaged.
    """

    def __init__(self, root: Path, spec: Spec, name: str | None = None) -> None:
        self.spec = spec
        self.path = root / (name or spec.key)
        self.state, self.previous = (self.path / name for name in STATES)
        self._lock: lock.Lock | None = None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the folder."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise errors.RunError(f"The run folder {self.path} cannot be written: {error.strerror}.") from None
        with lock.held(self.path / lock.NAME) as self._lock:
            if (self.path / "spec.json").exists():
                self._check_spec()
            else:
                files.write_json(self.path / "spec.json", self.spec.model_dump())
            for path in leftovers(self.path):
                path.unlink(missing_ok=True)
            yield

    @property
    def begun(self) -> bool:
        """Whether there is a state to resume from."""
        return self.state.exists() or self.previous.exists()

    @property
    def _remedy(self) -> str:
        """What to do about a damaged record: a state holds all records, and an unfinished run writes them again."""
        return "Remove its status.json and repeat the command." if self.state.exists() else files.RESTART

    def _check_spec(self) -> None:
        """Raise if spec.json belongs to another run. Fields that it lacks have their default."""
        path = self.path / "spec.json"
        try:
            ours = Spec.read(files.read_json(path)) == self.spec
        except (errors.InputError, TypeError):
            ours = False
        if not ours:
            raise errors.RunError(f"{path} belongs to another run. Move that folder away, or use another root.")

    # Reading ----------------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Content of status.json; {} for a run that never started."""
        path = self.path / "status.json"
        status = files.read_json(path, self._remedy) if path.exists() else {}
        if not (isinstance(status, dict) and isinstance(status.get("environment", {}), dict)):
            raise errors.RunError(f"{path} is damaged: it is not the status of a run. {self._remedy}")
        return status

    def records(self, name: str = METRICS) -> list[dict[str, Any]]:
        """Lines of metrics.jsonl or timing.jsonl so far."""
        return self._parse(name, self._content(name)) if (self.path / name).exists() else []

    def result(self) -> Result | None:
        """The result, after checking the digests and completeness of its records; None unless the run is done."""
        status = self.status()
        if status.get("state") != "done":
            return None
        self._check_spec()
        contents = {name: self._content(name) for name in RECORDS}
        try:
            for name, digest in status.get("digests", {}).items():
                if _digest(contents[name]) != digest:
                    raise errors.RunError(f"{self.path / name} is damaged. {self._remedy}")
            records, timing = (self._parse(name, content) for name, content in contents.items())
            if len(records) != self.spec.stages:
                stages = f"{len(records)} of {self.spec.stages} stages"
                raise errors.RunError(f"{self.path / METRICS} is damaged: it has {stages}. {self._remedy}")
            records = [_with_named_tests(record, self.spec) for record in records]
            if not all(_is_complete(record, stage, self.spec) for stage, record in enumerate(records, 1)):
                raise ValueError("a stage lacks some of its numbers")
            classes, environment = tuple(status["classes"]), {**status["environment"], **status["hardware"]}
            if not all(isinstance(name, str) for name in classes):
                raise ValueError("the name of a class is not a text")
            hash(tuple(environment.values()))  # raises if one of them is a list or a table
            return Result(
                spec=self.spec,
                key=self.spec.key,
                records=records,
                classes=classes,
                seconds=seconds(timing),
                environment=environment,
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise errors.RunError(f"The records in {self.path} are damaged. {self._remedy}") from None

    def restore(self) -> tuple[dict[str, Tensor], dict[str, Any], str]:
        """The last intact state: its tensors, its facts, and a warning if a later state is damaged."""
        problems: list[str] = []
        for path in filter(Path.exists, (self.state, self.previous)):
            try:
                tensors, facts = files.read_state(path)
                if problems:
                    with suppress(OSError):
                        path.replace(self.state)  # or the next checkpoint would move the damaged one over it
                return tensors, facts, "".join(f"{problem} Resuming from the state before it." for problem in problems)
            except errors.RunError as error:
                problems.append(str(error))
        raise errors.RunError(f"{problems[0]} {files.RESTART}")

    def _content(self, name: str) -> bytes:
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            raise errors.RunError(f"{self.path / name} cannot be read: {error.strerror}. {self._remedy}") from None

    def _parse(self, name: str, content: bytes) -> list[dict[str, Any]]:
        try:
            return [json.loads(line) for line in content.splitlines()]
        except (ValueError, RecursionError):
            raise errors.RunError(f"{self.path / name} is damaged. {self._remedy}") from None

    # Writing ----------------------------------------------------------------------------------------------------------

    def mark(self, state: str, **facts: Any) -> None:
        """Write status.json."""
        self._check_lock()
        files.write_json(self.path / "status.json", {"state": state, **facts})

    def fail(self, error: str, trace: str = "") -> None:
        """Record a failure in status.json, keeping what it says about the run."""
        self.mark(**{**self.status(), "state": "failed", "error": error, "trace": trace})

    def checkpoint(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Write the state, then publish the records it contains."""
        self._check_lock()
        files.write_state(self.state, tensors, facts, keep=self.previous)
        self.publish(facts)

    def publish(self, facts: dict[str, Any]) -> None:
        """Write the records of a state to metrics.jsonl and timing.jsonl."""
        for name in RECORDS:
            lines = [json.dumps(line, allow_nan=False) + "\n" for line in facts[name.removesuffix(".jsonl")]]
            files.write(self.path / name, "".join(lines).encode())

    def complete(self, **facts: Any) -> None:
        """Mark the run as done, with digests of its records."""
        self.previous.unlink(missing_ok=True)
        self.mark("done", **facts, digests={name: _digest(self._content(name)) for name in RECORDS})

    def _check_lock(self) -> None:
        """Raise if another process has taken over the run, so that a late one never changes its files."""
        if self._lock is not None and not self._lock.is_ours():
            raise errors.BusyError(f"The run {self.path.name} was taken over by another process.")


def leftovers(folder: Path) -> list[Path]:
    """Temporary files of a process that was killed while it wrote a file or probed the lock."""
    starts = (f"{lock.NAME}.", *(f".{name}." for name in WRITTEN))
    return sorted(path for path in folder.iterdir() if path.name.startswith(starts))


def seconds(timing: list[dict[str, Any]]) -> float:
    """Training and testing time in lines of timing.jsonl."""
    return sum(line["train_seconds"] + line["test_seconds"] for line in timing)


def _is_complete(record: dict[str, Any], stage: int, spec: Spec) -> bool:
    """Whether the record of a stage has all its fields, and a valid accuracy for each stage so far."""
    tests = [record, *(record["tests"][name] for name in spec.ways.others())]
    accuracies = [test["accuracy"] for test in tests if "probability" in test]
    complete = len(accuracies) == len(tests) and all(len(accuracy) == stage for accuracy in accuracies)
    complete = complete and "head" in record and isinstance(record["arrival"], list)
    return complete and all(0 <= value <= 1 for accuracy in accuracies for value in accuracy)


def _with_named_tests(record: dict[str, Any], spec: Spec) -> dict[str, Any]:
    """The same record; older ones have the test by the other form of the logits as "otherwise"."""
    tests = record.pop("otherwise", None)
    return {**record, "tests": dict.fromkeys(spec.ways.others(), tests)} if tests else record


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
