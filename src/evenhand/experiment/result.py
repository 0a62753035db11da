"""The result of a finished run, read from its records."""

from dataclasses import dataclass, replace
from typing import Any

from evenhand import metrics
from evenhand.experiment.spec import Spec


@dataclass(frozen=True)
class Result:
    """What a run left.

    Attributes
    ----------
    records
        One dict for each stage end, the lines of metrics.jsonl.
    classes
        The names of the classes in order of arrival.
    seconds
        Training and testing time together.
    environment
        What the run was made with: versions, threads, processor.
    """

    spec: Spec
    key: str
    records: list[dict[str, Any]]
    classes: tuple[str, ...]
    seconds: float
    environment: dict[str, Any]

    @property
    def accuracy(self) -> list[list[float]]:
        """The matrix of a_ij."""
        return [record["accuracy"] for record in self.records]

    def tested(self, spec: Spec) -> "Result":
        """The result of a run that trains as this one did and may be tested with the other form of the logits."""
        if spec.resolved.scoring.test == self.spec.resolved.scoring.test:
            return replace(self, spec=spec)
        records = [{**record, **record["otherwise"]} for record in self.records]
        return replace(self, spec=spec, records=[{k: v for k, v in one.items() if k != "otherwise"} for one in records])

    def summary(self) -> dict[str, Any]:
        """The headline numbers of one run, as fractions."""
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


def by_setting(results: list[Result]) -> list[list[Result]]:
    """Results that differ in the seed alone, together and in order of seed; settings in order of appearance."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.spec.setting, []).append(result)
    return [sorted(group, key=lambda result: result.spec.seed) for group in groups.values()]


def summarise(group: list[Result]) -> dict[str, Any]:
    """The headline numbers of one setting: means over its seeds, and the 95 % interval of the first."""
    runs = [result.summary() for result in group]

    def mean(field: str) -> float | None:
        values = [run[field] for run in runs]
        return None if None in values else metrics.mean(values)

    spec = group[0].spec
    return {
        "method": spec.method,
        "data": spec.data,
        "memory": spec.memory,
        "setting": spec.model_dump(exclude={"seed"}),
        "seeds": [run["seed"] for run in runs],
        "final_accuracy": mean("final_accuracy"),
        "interval": metrics.interval([run["final_accuracy"] for run in runs]),
        **{field: mean(field) for field in ("previous", "current", "forgetting", "seconds")},
        "runs": runs,
    }
