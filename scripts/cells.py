"""A summary of Table 2: for each cell UER, the best other method that was run, ER, and the paired differences."""

from collections.abc import Sequence
from dataclasses import dataclass

from standings import BASELINE, CONTENDER, PERCENT, paired

from evenhand import metrics
from evenhand.experiment.estimate import Estimate, Group, in_percent
from evenhand.experiment.result import Result, by_setting
from evenhand.paper.comparison import ComparedRow, ComparedTable
from evenhand.paper.published import DATASETS
from evenhand.paper.tables import NOT_RUN, TextTable

AVERAGED = f"{CONTENDER}+ema"
COLUMNS = (
    *("dataset, memory", "UER", f"`{AVERAGED}`", "best other method run", "ER"),
    *("UER minus that method", "UER minus ER", "seeds"),
)


@dataclass(frozen=True)
class Cell:
    """One dataset and memory of Table 2.

    Attributes
    ----------
    others
        All rows except UER's.
    averaged
        The accuracy of UER tested with averaged weights, if available.
    """

    title: str
    uer: ComparedRow
    er: ComparedRow
    others: tuple[ComparedRow, ...]
    averaged: Estimate | None

    @property
    def best(self) -> ComparedRow | None:
        """The best other method: of those that share the most seeds with UER, the one that it leads least.

        Without UER, the one with the highest mean.
        """
        run = [row for row in self.others if row.estimate]
        leads = [(len(gap.values), -gap.mean, row) for row in run if (gap := self.lead(row))]
        ranked = leads or [(0, row.estimate.mean, row) for row in run if row.estimate]
        return max(ranked, key=lambda entry: entry[:2])[2] if ranked else None

    @property
    def wins(self) -> bool | None:
        """Whether UER ends above every other method on the seeds that they share; None if it shares none."""
        leads = [lead.mean > 0 for row in self.others if (lead := self.lead(row))]
        return all(leads) if leads else None

    def lead(self, other: ComparedRow) -> Estimate | None:
        """UER minus another method, by seed."""
        return paired(self.uer, other)

    def row(self) -> tuple[str, ...]:
        """The cell as a row of the table."""
        uer, er, best = self.uer, self.er, self.best
        return (
            self.title,
            _both(uer.estimate, uer.paper),
            _ours(self.averaged),
            f"{best.name} {_both(best.estimate, best.paper)}" if best else NOT_RUN,
            _both(er.estimate, er.paper),
            _both(self.lead(best), _gap(uer, best), signed=True) if best else NOT_RUN,
            _both(self.lead(er), _gap(uer, er), signed=True),
            str(len(uer.seeds) or ""),
        )


def cells(tables: Sequence[ComparedTable], averaged: Sequence[Result]) -> list[Cell]:
    """The cells of Table 2 that have a row of UER, in the paper's order."""
    groups = {(runs[0].spec.data, runs[0].spec.memory): Group("", tuple(runs)) for runs in by_setting(list(averaged))}
    found = []
    for table in tables:
        rows = {row.method: row for row in table.rows if row.order == "classes"}
        if uer := rows.pop(CONTENDER, None):
            group = groups.get((uer.data, uer.memory or 0))
            accuracy = group.estimate(in_percent(metrics.average)) if group else None
            title = f"{DATASETS[uer.data].removeprefix('Split ')}, {uer.memory}"
            found.append(Cell(title, uer, rows[BASELINE], tuple(rows.values()), accuracy))
    return found


def cells_table(found: Sequence[Cell]) -> TextTable:
    """All cells as one table."""
    title = "Table 2 in short: final average accuracy in %, the paper's in parentheses, differences paired by seed"
    return TextTable(title, COLUMNS, tuple(cell.row() for cell in found))


def summary(found: Sequence[Cell]) -> str:
    """Count what reproduces."""
    run = [cell for cell in found if cell.uer.estimate]
    several = sum(len(cell.uer.seeds) > 1 for cell in run)
    above_er = [lead.mean > 0 for cell in run if (lead := cell.lead(cell.er))]
    wins = [cell.wins for cell in run if cell.wins is not None]
    differs = sum(cell.uer.flagged is True for cell in run)
    return (
        f"UER has been run in {len(run)} of {len(found)} cells, {several} of them with more than one seed. On average "
        f"it ends above ER in {sum(above_er)} of {len(above_er)}, and above every other method that was run there in "
        f"{sum(wins)} of {len(wins)}. Its accuracy differs from the paper's by more than chance explains "
        f"in {differs or 'none'}."
    )


def _ours(estimate: Estimate | None, signed: bool = False) -> str:
    return PERCENT(estimate.mean, estimate.half, signed) if estimate else NOT_RUN


def _both(estimate: Estimate | None, paper: float | None, signed: bool = False) -> str:
    return f"{_ours(estimate, signed)} ({PERCENT(paper, signed=signed)})"


def _gap(row: ComparedRow, other: ComparedRow) -> float | None:
    return None if row.paper is None or other.paper is None else row.paper - other.paper
