"""Results of finished runs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from evenhand import metrics
from evenhand.core import registry
from evenhand.experiment.spec import Spec

Item = TypeVar("Item")
Key = TypeVar("Key")


@dataclass(frozen=True)
class Result:
    """The records of a finished run.

    Attributes
    ----------
    records
        One dict per stage, the lines of metrics.jsonl.
    classes
        Names of the classes in order of arrival.
    seconds
        Training and testing time.
    environment
        Versions, threads and processor that the run used.
    """

    spec: Spec
    key: str
    records: list[dict[str, Any]]
    classes: tuple[str, ...]
    seconds: float
    environment: dict[str, Any]

    @property
    def accuracy(self) -> list[list[float]]:
        """The matrix a_ij: accuracy on stage j after stage i."""
        return [record["accuracy"] for record in self.records]

    def tested_as(self, spec: Spec) -> "Result":
        """The result of another spec that trains alike, from the tests of this one; see `Spec.answers`."""
        answer = answering(self.spec, spec)
        return replace(self, spec=spec, records=[answer(record) for record in self.records])

    def rows(self) -> list["Result"]:
        """One result for each way in which the run was tested, as if each were a run of its own."""
        names = [self.spec.method, *(registry.retested(self.spec.method, way) for way in self.spec.ways.others())]
        return [self.tested_as(self.spec.model_copy(update={"method": name, "tests": ""})) for name in names]

    def summary(self) -> dict[str, Any]:
        """Headline numbers of the run, as fractions."""
        return {
            "key": self.key,
            "seed": self.spec.seed,
            "final_accuracy": metrics.average(self.accuracy),
            "previous": metrics.previous(self.accuracy),
            "current": metrics.current(self.accuracy),
            "forgetting": metrics.forgetting(self.accuracy),
            "backward_transfer": metrics.backward_transfer(self.accuracy),
            "anytime": metrics.anytime(self.accuracy),
            "worst_case": metrics.worst_case(self.accuracy),
            "accuracy": self.accuracy,
            "seconds": self.seconds,
        }


def answering(run: Spec, spec: Spec) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Turn the records of a run into those of another spec that trains alike; see `Spec.answers`."""
    recorded = {run.ways.methods[name].test: name for name in ("", *run.ways.others())}
    own, others = recorded[spec.resolved.test], spec.ways.others()

    def answer(record: dict[str, Any]) -> dict[str, Any]:
        tests = {"": record, **record.get("tests", {})}
        line = {name: value for name, value in {**record, **tests[own]}.items() if name != "tests"}
        asked = {name: tests[recorded[spec.ways.methods[name].test]] for name in others}
        return {**line, "tests": asked} if asked else line

    return answer


def by_setting(results: list[Result]) -> list[list[Result]]:
    """Group results that differ only in the seed: groups in order of appearance, results in order of their seeds."""
    groups = grouped(results, lambda result: result.spec.setting).values()
    return [sorted(group, key=lambda result: result.spec.seed) for group in groups]


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items by their key, both in order of appearance."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
