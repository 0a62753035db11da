"""Where UER stands among the methods of its stream, and what each method gains over ER; all differences by seed."""

from collections.abc import Sequence
from dataclasses import dataclass

from evenhand import metrics
from evenhand.experiment.estimate import Estimate, Group, Metric, difference, in_percent, paired_difference
from evenhand.experiment.result import Result, by_setting
from evenhand.paper.comparison import ComparedRow, ComparedTable
from evenhand.paper.definitions import ORDERS, memoryless
from evenhand.paper.measures import MEASURES
from evenhand.paper.published import method_title, stream_title
from evenhand.paper.tables import TextTable

CONTENDER, BASELINE = "uer", "er"
COMPARED: dict[str, tuple[Metric, int]] = {  # -1 where less is better
    "final average accuracy": (metrics.average, 1),
    "previous classes": (metrics.previous, 1),
    "current classes": (metrics.current, 1),
    "mean of both": (metrics.balance, 1),
    "forgetting": (metrics.forgetting, -1),
    "anytime accuracy": (metrics.anytime, 1),
    "worst-case accuracy": (metrics.worst_case, 1),
}
FURTHER = ("final average accuracy", "forgetting", "anytime accuracy", "worst-case accuracy")
PERCENT = MEASURES["accuracy"].format


@dataclass(frozen=True)
class Verdict:
    """UER and the best other method by one measure, in %.

    Attributes
    ----------
    ahead
        The methods that beat UER on the seeds they share with it, best first.
    gap
        UER minus the best other method.
    sign
        1 if more is better, -1 if less is.
    """

    measure: str
    uer: Estimate | None
    best: str
    other: Estimate | None
    ahead: tuple[str, ...]
    gap: Estimate
    sign: int

    @property
    def conclusion(self) -> str:
        """What the seeds show."""
        if self.gap.half is None:
            return "one seed"
        if abs(self.gap.mean) <= self.gap.half:
            return "not settled"
        return "UER ahead" if self.sign * self.gap.mean > 0 else "UER behind"


@dataclass(frozen=True)
class Standings:
    """All methods of one stream and memory."""

    title: str
    groups: tuple[Group, ...]

    @property
    def uer(self) -> Group | None:
        """The runs of UER, if any."""
        return next((group for group in self.groups if group.method == CONTENDER), None)

    def verdicts(self) -> list[Verdict]:
        """One verdict per measure; empty if UER or all other methods are missing."""
        uer = self.uer
        others = [group for group in self.groups if group is not uer]
        if uer is None or not others:
            return []
        verdicts = [_verdict(name, uer, others, metric, sign) for name, (metric, sign) in COMPARED.items()]
        return [verdict for verdict in verdicts if verdict is not None]

    def behind(self) -> list[tuple[int, tuple[str, ...]]]:
        """The stages after which other methods have a higher average accuracy than UER, and those methods."""
        uer = self.uer
        if uer is None:
            return []
        stages = []
        for stage in range(len(uer.runs[0].records)):
            gaps = {group.label: difference(uer, group, in_percent(metrics.average, stage)) for group in self.groups}
            stages.append((stage + 1, tuple(label for label, gap in gaps.items() if gap and gap.mean < 0)))
        return [(stage, ahead) for stage, ahead in stages if ahead]

    def table(self) -> TextTable:
        """The verdicts as a table."""
        rows = [
            (
                one.measure,
                _shown(one.uer),
                f"{one.best} {_shown(one.other)}",
                _shown(one.gap, signed=True),
                one.conclusion,
            )
            for one in self.verdicts()
        ]
        columns = ("", "UER", "best other", "UER minus best other, paired", "")
        return TextTable(f"{self.title} (%)", columns, tuple(rows))

    def further(self) -> TextTable:
        """Measures that the paper does not report."""
        metrics = [in_percent(COMPARED[name][0]) for name in FURTHER]
        rows = [
            (group.label, *(_shown(group.estimate(metric)) for metric in metrics), str(len(group.runs)))
            for group in self.groups
        ]
        return TextTable(self.title, ("method", *(f"{name} (%)" for name in FURTHER), "seeds"), tuple(rows))


def standings(results: Sequence[Result]) -> list[Standings]:
    """Group results by stream and memory; methods without a memory form streams of their own."""
    titles: dict[str, list[Group]] = {}
    for runs in by_setting(list(results)):
        spec = runs[0].spec
        group = Group(spec.order.upper() if spec.order in ORDERS else method_title(spec.method), tuple(runs))
        title = stream_title(spec.data, None if memoryless(spec) else spec.memory)
        titles.setdefault(title if spec.order == "classes" else f"{title}, order {spec.order}", []).append(group)
    return [Standings(title, tuple(groups)) for title, groups in titles.items()]


def rows_above_best(table: ComparedTable) -> tuple[ComparedRow, list[tuple[ComparedRow, float]]] | None:
    """The paper's best row, and the rows that end above it here with their lead; None if that row was not run."""
    published = [row for row in table.rows if row.paper is not None]
    best = max(published, key=lambda row: row.paper or 0, default=None)
    if best is None or best.estimate is None:
        return None
    gaps = [(row, paired(row, best)) for row in table.rows]
    above = [(row, gap.mean) for row, gap in gaps if gap and gap.mean > 0]
    return best, sorted(above, key=lambda pair: -pair[1])


def gains(table: ComparedTable) -> TextTable | None:
    """What each method gains over ER, in the paper and here; None if ER or all other methods were not run."""
    er = next((row for row in table.rows if (row.method, row.order) == (BASELINE, "classes")), None)
    if er is None:
        return None
    lines = []
    for row in table.rows:
        gain = paired(row, er)
        if row is er or gain is None:
            continue
        paper = None if row.paper is None or er.paper is None else row.paper - er.paper
        off = None if paper is None else gain.mean - paper
        numbers = PERCENT(paper, signed=True), _shown(gain, signed=True), PERCENT(off, signed=True)
        lines.append((row.name, *numbers, str(len(gain.values))))
    columns = ("method", "paper", "ours, paired", "difference", "seeds")
    return TextTable(f"{table.title} ({er.kind.unit})", columns, tuple(lines)) if lines else None


def paired(row: ComparedRow, base: ComparedRow) -> Estimate | None:
    """One row minus another, seed by seed; None if they share no seed."""
    ours, theirs = (dict(zip(r.seeds, r.estimate.values, strict=True)) if r.estimate else {} for r in (row, base))
    return paired_difference(ours, theirs)


def _verdict(name: str, uer: Group, others: Sequence[Group], metric: Metric, sign: int) -> Verdict | None:
    """Rank others by the paired difference; the best one is among those that share the most seeds with UER."""
    found = [(group, difference(uer, group, metric)) for group in others]
    gaps = [(group, Estimate(tuple(100 * value for value in gap.values))) for group, gap in found if gap]
    if not gaps:
        return None
    ranked = sorted(gaps, key=lambda pair: sign * pair[1].mean)
    best, gap = max(ranked, key=lambda pair: len(pair[1].values))  # the first of them
    ahead = tuple(group.label for group, gap in ranked if sign * gap.mean < 0)
    own, other = (group.estimate(in_percent(metric)) for group in (uer, best))
    return Verdict(name, own, best.label, other, ahead, gap, sign)


def _shown(estimate: Estimate | None, signed: bool = False) -> str:
    return PERCENT(estimate.mean, estimate.half, signed) if estimate else "-"
