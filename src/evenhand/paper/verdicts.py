"""Where UER wins and where it does not, on every stream that it was run on beside others; and what is not settled."""

from collections.abc import Sequence
from dataclasses import dataclass

from evenhand import metrics
from evenhand.experiment.result import Result, by_setting
from evenhand.paper import naming
from evenhand.paper.comparison import Row, Section
from evenhand.paper.definitions import memoryless
from evenhand.paper.gains import paired
from evenhand.paper.measures import MEASURES, percent
from evenhand.paper.sheets import Sheet, with_interval
from evenhand.report.group import Estimate, Group, Metric, at, difference

CHAMPION = "uer"


COMPARED: dict[str, tuple[Metric, int]] = {  # with the side on which more lies
    "final average accuracy": (metrics.average, 1),
    "previous classes": (metrics.previous, 1),
    "current classes": (metrics.current, 1),
    "mean of both": (metrics.balance, 1),
    "forgetting": (metrics.forgetting, -1),
    "anytime accuracy": (metrics.anytime, 1),
    "worst-case accuracy": (metrics.worst_case, 1),
}
FURTHER = ("accuracy", "forgetting", "anytime", "worst_case")


@dataclass(frozen=True)
class Verdict:
    """UER and the best of the others by one measure, in %.

    Attributes
    ----------
    ahead
        All methods that are better than UER, on the mean over the seeds that they share with it; the best first.
    gap
        UER's number less the best other's, paired by seed.
    """

    measure: str
    ours: Estimate
    other: str
    best: Estimate
    ahead: tuple[str, ...]
    gap: Estimate
    side: int

    @property
    def says(self) -> str:
        """What the seeds say."""
        if self.gap.half is None:
            return "one seed"
        if abs(self.gap.mean) <= self.gap.half:
            return "not settled"
        return "UER ahead" if self.side * self.gap.mean > 0 else "UER behind"


@dataclass(frozen=True)
class Stream:
    """All groups of one stream and memory."""

    title: str
    groups: tuple[Group, ...]

    @property
    def champion(self) -> Group | None:
        """UER, if it was run."""
        return next((group for group in self.groups if group.method == CHAMPION), None)

    def verdicts(self) -> list[Verdict]:
        """One for each measure; none where UER, or anything beside it, was not run."""
        champion = self.champion
        others = [group for group in self.groups if group is not champion]
        if champion is None or not others:
            return []
        found = [_verdict(name, champion, others, metric, side) for name, (metric, side) in COMPARED.items()]
        return [verdict for verdict in found if verdict is not None]

    def stages(self) -> list[tuple[int, tuple[str, ...]]]:
        """The stages after which others have a better average accuracy than UER, seed by seed, and who."""
        champion = self.champion
        if champion is None:
            return []
        found = []
        for stage in range(len(champion.runs[0].records)):
            gaps = {group.label: difference(champion, group, at(metrics.average, stage)) for group in self.groups}
            found.append((stage + 1, tuple(label for label, gap in gaps.items() if gap and gap.mean < 0)))
        return [(stage, ahead) for stage, ahead in found if ahead]

    def sheet(self) -> Sheet:
        """The verdicts as a table."""
        rows = []
        for verdict in self.verdicts():
            ours, best = (with_interval(one.mean, one.half, _KIND) for one in (verdict.ours, verdict.best))
            gap = with_interval(verdict.gap.mean, verdict.gap.half, _KIND, sign=True)
            rows.append((verdict.measure, ours, f"{verdict.other} {best}", gap, verdict.says))
        return Sheet(f"{self.title} (%)", ("", "UER", "best other", "UER less it, paired", ""), tuple(rows))

    def further(self) -> Sheet:
        """What the paper did not measure."""
        kinds = [MEASURES[name] for name in FURTHER]
        rows = []
        for group in self.groups:
            values = [[v for run in group.runs if kind.value and (v := kind.value(run)) is not None] for kind in kinds]
            cells = [
                with_interval(metrics.mean(found), metrics.interval(found), kind) if found else "-"
                for kind, found in zip(kinds, values, strict=True)
            ]
            rows.append((group.label, *cells, str(len(group.runs))))
        columns = ("method", *(f"{kind.title} ({kind.unit})" for kind in kinds), "seeds")
        return Sheet(self.title, columns, tuple(rows))


def outdone(section: Section) -> tuple[Row, list[tuple[Row, float]]] | None:
    """The paper's best row of a table, and the rows that end above it here, by how much; None if it was not run."""
    printed = [row for row in section.rows if row.published is not None]
    best = max(printed, key=lambda row: row.published or 0, default=None)
    if best is None or best.ours is None:
        return None
    gaps = [(row, paired(row, best)) for row in section.rows]
    above = [(row, gap.mean) for row, gap in gaps if gap and gap.mean > 0]
    return best, sorted(above, key=lambda pair: -pair[1])


def streams(results: Sequence[Result]) -> list[Stream]:
    """Results by stream and memory; what keeps no memory stands in a stream of its own."""
    found: dict[tuple[str, int | None, str], list[Group]] = {}
    for runs in by_setting(list(results)):
        spec = runs[0].spec
        group = Group(naming.method(spec.method) if spec.order == "classes" else spec.order.upper(), tuple(runs))
        found.setdefault((spec.data, None if memoryless(spec) else spec.memory, spec.order), []).append(group)
    return [
        Stream(naming.place(data, memory) + ("" if order == "classes" else f", order {order}"), tuple(groups))
        for (data, memory, order), groups in found.items()
    ]


def _verdict(name: str, champion: Group, others: Sequence[Group], metric: Metric, side: int) -> Verdict | None:
    """Others are ranked by what UER has more than they, seed by seed: a mean over other seeds is unfair."""
    gaps = [(group, gap) for group in others if (gap := percent(difference(champion, group, metric))) is not None]
    if not gaps:
        return None
    ranked = sorted(gaps, key=lambda pair: side * pair[1].mean)
    best, gap = ranked[0]
    ours, theirs = (_kept(group, metric) for group in (champion, best))
    ahead = tuple(group.label for group, one in ranked if side * one.mean < 0)
    return Verdict(name, ours, best.label, theirs, ahead, gap, side)


def _kept(group: Group, metric: Metric) -> Estimate:
    """A metric that is known to exist, in %."""
    return Estimate(tuple(100 * value for run in group.runs if (value := metric(run.accuracy)) is not None))


_KIND = MEASURES["accuracy"]
