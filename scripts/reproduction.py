"""Generate docs/reproduction.md, the page about the paper, from the committed records.

    python scripts/reproduction.py

The same records give the same bytes.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cells import AVERAGED, cells, cells_table, summary
from pydantic import BaseModel, field_validator
from standings import CONTENDER, gains, rows_above_best, standings

from evenhand import errors, files
from evenhand.core import registry
from evenhand.experiment import grid
from evenhand.experiment.result import Result
from evenhand.experiment.trainings import Archive
from evenhand.paper import Rendering, all_items, drawing, load_item, select
from evenhand.paper.comparison import ComparedRow
from evenhand.paper.definitions import STRICT, duration
from evenhand.paper.tables import NOT_RUN, TextTable

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs/reproduction.md"
RECORDS = PROJECT / "results/paper"
FINDINGS = PROJECT / "docs/reproduction/findings.toml"
UNEXPLAINED = "not yet explained"
HEADER = """# The paper, reproduced

Every table and figure of the UER paper next to our own runs, starting with a summary of Table 2. `python
scripts/reproduction.py` generates this page from the records in `results/paper`; only the notes below the titles, the
text after the counts and the findings about rows that differ are written by hand.
"""
READING = """## How to read this page

- *Paper* is the mean of ten runs, with half its 95 % interval if the paper prints one. *Ours* is the mean over our
  seeds, with half the 95 % interval of that mean (Student's t): very wide for two seeds, none for a single one.
- A row *differs* when |ours - paper| > 2 SD sqrt(1/n + 1/10), where n is the number of our seeds and SD the paper's
  interval times sqrt(10)/2.262.
- The *best other method* is, of those that share the most seeds with UER, the one that UER leads least. Where only ER
  and ER-ACE were run, the paper's best may be a third.
- The commands train what is missing; with `--no-run` they only show what is finished. Of a seed that was trained
  twice, on two processors or in two precisions, the page shows the first run ([the
  others](../results/README.md#paper-the-papers-setting)). No seed that was run is left out.
- We chose the views, the passes and ER-ACE's head by one-seed trials, compared with the paper and not kept ([the
  protocol](protocol.md)); nothing was tuned after that. Averaged weights (`uer+ema`) are our addition, not the paper's
  ([one training, many tests](protocol.md#one-training-many-tests)).
"""


class Finding(BaseModel):
    """A trial that investigates a row that differs from the paper.

    Attributes
    ----------
    memory
        None for a method without a memory.
    number
        What the command gave, in the unit of the row.
    explains
        Whether the trial shows the cause of the difference.
    neck
        Whether the row belongs to Table 4, where a layer is added before the head.
    """

    model_config = STRICT

    method: str
    data: str
    command: str
    number: float
    conclusion: str
    memory: int | None = None
    order: str = "classes"
    explains: bool = False
    neck: bool = False

    @field_validator("method")
    @classmethod
    def _method(cls, name: str) -> str:
        return registry.canonical(name)

    def about(self, row: ComparedRow) -> bool:
        """Whether the finding is about this row."""
        return all(getattr(self, name) == getattr(row, name) for name in ("method", "data", "memory", "order", "neck"))


class Findings(BaseModel):
    """The content of findings.toml; the summary states what reproduces, what does not, and why."""

    model_config = STRICT

    summary: str = ""
    finding: list[Finding] = []


def parse_findings(content: dict[str, Any]) -> Findings:
    """Validate the content of findings.toml."""
    return errors.validated(Findings, content, "the list of findings", ["summary", *Finding.model_fields])


def renderings(records: Path) -> list[Rendering]:
    """Render all items from the records in a folder."""
    archive = Archive([records])
    items = [Rendering(item, item.results(archive), item.steps([records])) for item in all_items()]
    _refuse_damage(archive)
    return items


def averaged(records: Path) -> list[Result]:
    """The runs of UER in Table 2, tested with averaged weights."""
    item = select(load_item("table2"), methods=[CONTENDER])
    specs = tuple(spec.model_copy(update={"method": AVERAGED}) for spec in item.specs)
    archive = Archive([records])
    results = item.model_copy(update={"specs": specs}).results(archive)
    _refuse_damage(archive)
    return results


def _refuse_damage(archive: Archive) -> None:
    """Raise for a damaged run: a page without it would say that it has not been run."""
    for problem in archive.damaged.values():
        raise errors.RunError(problem)


def write(page: Path, records: Path, findings: Findings) -> list[Rendering]:
    """Write the page, and its pictures into a folder with the name of the page."""
    items = renderings(records)
    pictures = page.with_suffix("")
    files.make_folder(pictures)
    for item in items:
        if item.drawable:
            files.write(pictures / f"{item.item.slug}.svg", drawing.picture(item, "svg"))
    files.write(page, text(items, averaged(records), pictures.name, findings).encode())
    return items


def text(items: Sequence[Rendering], averaged: Sequence[Result], pictures: str, findings: Findings) -> str:
    """Compose the page."""
    table2 = next(rendering for rendering in items if rendering.item.slug == "table2")
    results = list({result.key: result for result in table2.results}.values())
    found = cells(table2.compared, averaged)
    blocks = [
        HEADER,
        cells_table(found).markdown(),
        f"{summary(found)} {findings.summary.strip()}".strip() + "\n",
        READING,
        _overview(items),
        _standings(results, items),
        *(_item(rendering, pictures) for rendering in items),
        _gains(table2),
        _differing([row for rendering in items for row in rendering.flagged], findings.finding),
        _further(results),
    ]
    return "\n".join(blocks)


def _overview(items: Sequence[Rendering]) -> str:
    lines = [
        "## What has been run\n",
        "| item | runs finished | of | command | time for all runs |",
        "|---|---:|---:|---|---:|",
    ]
    for rendering in items:
        item = rendering.item
        finished, total = ("", "") if item.source == "bench" else (rendering.finished, len(item.runs))
        link = f"[{item.title}](#{item.slug})"
        lines.append(f"| {link} | {finished} | {total} | `{item.command}` | {duration(item.hours())} |")
    hardware = next(rendering.item.time.hardware for rendering in items if rendering.item.source == "runs")
    return "\n".join(lines) + (
        f"\n\nTimes are for {hardware}. They were measured on CIFAR-100, with a core per run, for methods that cost as "
        "much as ER, and estimated from image size and C_D for all others; ASER and GSS take longer. Items share runs: "
        f"a finished run counts for every item that needs it. {_precisions(items)}\n"
    )


def _precisions(items: Sequence[Rendering]) -> str:
    """Count the runs in bfloat16."""
    runs = {result.key: result.environment.get("precision") for item in items for result in item.results}
    count = sum(precision == "bf16" for precision in runs.values())
    return f"{count} of the {len(runs)} runs were computed in [bfloat16](speed.md#bfloat16), all others in float32."


def _item(rendering: Rendering, pictures: str) -> str:
    item, tables = rendering.item, rendering.text_tables()
    notes = " ".join(filter(None, (rendering.progress, _sides(rendering), item.note.strip())))
    blocks = [f'<a id="{item.slug}"></a>\n\n## {item.title}\n', f"    {item.command}\n", f"{notes}\n"]
    if rendering.drawable:
        blocks.append(f"![{item.title}]({pictures}/{item.slug}.svg)\n")
    if not tables:
        blocks.append("Not run.\n")
    blocks += [own.markdown() for table in tables if (own := _rows(table, run=True)).rows]
    if waiting := [own.markdown() for table in tables if (own := _rows(table, run=False)).rows]:
        blocks += ["<details><summary>Not run: the paper's numbers only</summary>\n", *waiting, "</details>\n"]
    return "\n".join(blocks)


def _rows(table: TextTable, run: bool) -> TextTable:
    """The same table with the rows that were run, or with the others."""
    return replace(table, rows=tuple(row for row in table.rows if (NOT_RUN in row) != run))


def _sides(rendering: Rendering) -> str:
    """Count our accuracies above and below the paper's."""
    gaps = [row.difference for row in rendering.rows if row.measure == "accuracy" and row.difference is not None]
    above, below = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
    return f"Accuracies compared with the paper's: {above} above, {below} below." if gaps else ""


def _standings(results: Sequence[Result], items: Sequence[Rendering]) -> str:
    lines = ["## Where UER does not win\n"]
    streams = [(stream, verdicts) for stream in standings(results) if (verdicts := stream.verdicts())]
    if not streams:
        return "\n".join([*lines, "UER has not been run together with another method yet.\n"])
    lines.append(
        "UER against the best other method on the same stream with the same memory, measure by measure. Two methods "
        "are compared seed by seed, on the seeds that both have; *not settled* means that the 95 % interval of the "
        "difference includes zero. Less forgetting is better. Variants that we tried because a row differs from the "
        "paper are listed [below](#rows-that-differ-from-the-paper) and not compared here.\n"
    )
    for stream, verdicts in streams:
        lost = [f"{verdict.measure} ({', '.join(verdict.ahead)})" for verdict in verdicts if verdict.ahead]
        summary = f"Others are better in {'; '.join(lost)}." if lost else "UER is best in all measures."
        heading, _, table = stream.table().markdown().partition(" (%)**")
        lines.append(f"{heading}**, {len(stream.groups)} methods. {summary}{table}")
        if behind := [f"after stage {stage} ({', '.join(ahead)})" for stage, ahead in stream.behind()]:
            lines.append(f"By stage, others have a higher average accuracy {'; '.join(behind)}.\n")
    return "\n".join([*lines, *filter(None, map(_above_best, items))]).rstrip("\n") + "\n"


def _above_best(rendering: Rendering) -> str:
    """Name the rows of a table that end above the paper's best; Table 2 is compared stream by stream."""
    lines = []
    for table in rendering.compared if rendering.item.slug != "table2" else []:
        if table.rows[0].measure == "accuracy" and (found := rows_above_best(table)):
            best, above = found
            names = [f"{row.name} ({row.kind.format(gap, signed=True)})" for row, gap in above]
            verb = "ends" if len(names) == 1 else "end"
            outcome = f"{'; '.join(names)} {verb} above it" if names else "it is also the best"
            lines.append(f"**{rendering.item.title}.** The paper's best row is {best.name}; here {outcome}.\n")
    return "\n".join(lines)


def _gains(table2: Rendering) -> str:
    lines = ["## What each method gains over ER\n"]
    tables = [table.markdown() for compared in table2.compared if (table := gains(compared))]
    if not tables:
        return "\n".join([*lines, "No other method has been run together with ER yet.\n"])
    lines.append(
        "With the same seed, all methods see the classes in the same order and start from the same weights, and a hard "
        "order lowers them all. These tables therefore show the accuracies of Table 2 minus ER's: for the paper, from "
        "its means, without an interval; for our runs, seed by seed.\n"
    )
    return "\n".join([*lines, *tables])


def _differing(rows: Sequence[ComparedRow], findings: Sequence[Finding]) -> str:
    lines = ["## Rows that differ from the paper\n"]
    if not rows:
        return "\n".join([*lines, "With the current seeds, no row differs by more than chance explains.\n"])
    for row in rows:
        number = row.kind.format
        memory = "" if row.memory is None else f", memory {row.memory}"
        place = f"{row.data}{memory}{', with a neck' if row.neck else ''}"
        lines.append(f"- **{row.name}** on {place}: paper {number(row.paper)}, ours {number(row.ours)}.")
        about = [finding for finding in findings if finding.about(row)]
        lines += [f"  - `{one.command}` gave {number(one.number)}. {one.conclusion.strip()}" for one in about]
        if not about:
            lines[-1] += f" This is {UNEXPLAINED}."
        elif not any(finding.explains for finding in about):
            lines.append("  - The cause of the difference is not known.")
    return "\n".join(lines) + "\n"


def _further(results: Sequence[Result]) -> str:
    lines = ["## What the paper did not measure\n"]
    if not results:
        return "\n".join([*lines, "Nothing has been run yet.\n"])
    lines.append(
        "Forgetting, anytime accuracy and worst-case accuracy, as [the protocol](protocol.md) defines them. These runs "
        "shared their machine with others, so their times are not meaningful; we timed the steps of all methods "
        "separately ([results](../results/README.md#speed-of-all-methods)).\n"
    )
    return "\n".join([*lines, *(stream.further().markdown() for stream in standings(results))])


def main() -> None:
    """Write the page of the docs."""
    items = write(PAGE, RECORDS, parse_findings(grid.read_toml(FINDINGS, "list of findings")))
    runs = len({result.key for rendering in items for result in rendering.results})
    flagged = sum(len(rendering.flagged) for rendering in items)
    print(f"{PAGE.relative_to(PROJECT)}: {runs} runs, {flagged} rows that differ")


if __name__ == "__main__":
    main()
