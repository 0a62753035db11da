"""Results of finished runs."""

from dataclasses import dataclass, replace
from typing import Any

from evenhand import metrics
from evenhand.experiment.spec import Spec


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
        """The result of another spec with the same training, which may test with the other form of the logits."""
        if spec.resolved.scoring.test == self.spec.resolved.scoring.test:
            return replace(self, spec=spec)
        merged = [{**record, **record["otherwise"]} for record in self.records]
        records = [{name: value for name, value in record.items() if name != "otherwise"} for record in merged]
        return replace(self, spec=spec, records=records)

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


def by_setting(results: list[Result]) -> list[list[Result]]:
    """Group results that differ only in the seed: groups in order of appearance, results in order of their seeds."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.spec.setting, []).append(result)
    return [sorted(group, key=lambda result: result.spec.seed) for group in groups.values()]
