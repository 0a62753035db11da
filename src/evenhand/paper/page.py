"""The reproduction page of the docs, made from the records alone: the same records give the same bytes."""

from collections.abc import Sequence
from pathlib import Path

from evenhand import errors, files
from evenhand.experiment.result import Result
from evenhand.paper import costs, definitions, findings, gains, records, texts, times
from evenhand.paper.comparison import Row
from evenhand.paper.findings import Finding
from evenhand.paper.rendering import Rendering, render
from evenhand.paper.sheets import Sheet
from evenhand.paper.verdicts import outdone, streams
from evenhand.report import optional

UNEXPLAINED = "not yet explained"
HEADER = """# The paper, reproduced

Every table and figure of the UER paper beside our own runs. This page is made from the records in `{records}` by
`{command}`; what is written by hand are the notes below the titles and the findings about rows that differ.

*Paper* is the mean of ten runs with half its 95 % interval, where the paper prints one; *ours* the mean over our seeds
with half the 95 % interval of their mean (Student's t; two seeds have a very wide one, a single seed has none). A row
*differs* when |ours - paper| > 2 SD sqrt(1/n + 1/10), with n our seeds and SD the paper's interval times
sqrt(10)/2.262. What has not been run says so. Views, passes and ER-ACE's head were settled by trials of one seed that
were compared with the paper and not kept ([the protocol](protocol.md)); after that nothing was tuned, and no seed that
was run is left out.
"""


def write(path: Path, folder: Path) -> list[Rendering]:
    """Write the page about the records in a folder, and its pictures into a folder of the page's name."""
    with optional("The pictures of the page need"):
        from evenhand.paper import figures
    if not path.suffix:
        raise errors.InputError(
            f"The page needs a name with an ending, e.g. {path}.md: {path} is its folder of pictures."
        )
    made = renderings(folder)
    pictures = path.with_suffix("")
    files.make(pictures)
    for one in made:
        if one.drawn:
            files.write(pictures / f"{one.item.slug}.svg", figures.picture(one, "svg"))
    command = f"evenhand paper --page {path} --records {folder}"
    files.write(path, page(made, pictures.name, str(folder), command).encode())
    return made


def renderings(folder: Path) -> list[Rendering]:
    """All items with what the records have of them."""
    if not folder.is_dir():
        raise errors.InputError(f"There is no folder {folder} with records.")
    made = []
    for item in definitions.items():
        if item.source == "bench":
            made.append(render(item, [], costs.steps(item, [folder])))
        else:
            made.append(render(item, records.done(item.specs, [folder])))
    return made


def page(made: Sequence[Rendering], pictures: str, folder: str, command: str) -> str:
    """The text of the page."""
    known = findings.read(definitions.folder() / "findings.toml")
    results = {result.key: result for one in made for result in one.results if one.item.slug == "table2"}
    blocks = [
        HEADER.format(records=folder, command=command),
        _overview(made),
        _not_won(list(results.values()), made),
        *(_item(one, pictures) for one in made),
        _gains(next(one for one in made if one.item.slug == "table2")),
        _differing([row for one in made for row in one.flagged], known),
        _further(list(results.values())),
    ]
    return "\n".join(blocks)


def _overview(made: Sequence[Rendering]) -> str:
    lines = [
        "## What has been run\n",
        "| item | runs done | of | command | time of all its runs |",
        "|---|---:|---:|---|---:|",
    ]
    for one in made:
        item, bench = one.item, one.item.source == "bench"
        counts = ("", "") if bench else (str(one.done), str(len(item.runs)))
        took = times.shown(item.hours())
        lines.append(f"| [{item.title}](#{item.slug}) | {' | '.join(counts)} | `{item.command}` | {took} |")
    hardware = next(one.item.times.hardware for one in made if one.item.source == "runs")
    return "\n".join(lines) + (
        f"\n\nTimes are for {hardware}: measured for CIFAR-100 and methods that cost what ER costs, in runs "
        "that had a core each to themselves, estimated for all others from the size of the images and C_D; ASER and "
        "GSS take longer. Items share runs; what one has made, the others find.\n"
    )


def _item(one: Rendering, pictures: str) -> str:
    item = one.item
    blocks = [f'<a id="{item.slug}"></a>\n\n## {item.title}\n', f"    {item.command}\n"]
    blocks.append(" ".join(filter(None, (one.state, _sides(one), item.note.strip()))) + "\n")
    if one.drawn:
        blocks.append(f"![{item.title}]({pictures}/{item.slug}.svg)\n")
    if not one.sheets:
        blocks.append("Not run.\n")
    blocks += [_titled(sheet) for sheet in one.sheets if sheet.run]
    if waiting := [sheet for sheet in one.sheets if not sheet.run]:
        blocks.append("<details><summary>Not run, the paper's numbers alone</summary>\n")
        blocks += [_titled(sheet) for sheet in waiting]
        blocks.append("</details>\n")
    return "\n".join(blocks)


def _sides(one: Rendering) -> str:
    """On which side of the paper's our accuracies lie."""
    rows = [row for section in one.sections for row in section.rows if row.measure == "accuracy"]
    off = [row.difference for row in rows if row.difference is not None]
    if not off:
        return ""
    above, below = sum(value > 0 for value in off), sum(value < 0 for value in off)
    return f"Accuracies that can be compared: {above} above the paper's, {below} below."


def _titled(sheet: Sheet) -> str:
    return f"**{_plain(sheet.title)}**\n\n{texts.markdown(sheet)}"


def _not_won(results: Sequence[Result], made: Sequence[Rendering]) -> str:
    lines = ["## Where UER does not win\n"]
    found = [(stream, verdicts) for stream in streams(results) if (verdicts := stream.verdicts())]
    if not found:
        return "\n".join([*lines, "Nothing has been run yet that UER could be compared with.\n"])
    lines.append(
        "UER against the best of the other methods that were run on the same stream with the same memory, measure by "
        "measure. Who is better is said by the seeds that both were run with, one by one; *not settled* means that the "
        "95 % interval of the difference includes zero. Less forgetting is better. Variants that were tried about rows "
        "that differ from the paper are not compared here; they stand [below](#rows-that-differ-from-the-paper).\n"
    )
    for stream, verdicts in found:
        lost = [f"{verdict.measure} ({', '.join(verdict.ahead)})" for verdict in verdicts if verdict.ahead]
        told = f"Others are better in {'; '.join(lost)}." if lost else "UER is the best in all of them."
        lines.append(
            f"**{_plain(stream.title)}**, {len(stream.groups)} methods. {told}\n\n{texts.markdown(stream.sheet())}"
        )
        if behind := [f"after stage {stage} {', '.join(ahead)}" for stage, ahead in stream.stages()]:
            lines.append(f"By stage, others have the better average accuracy {'; '.join(behind)}.\n")
    return "\n".join([*lines, *filter(None, map(_outdone, made))]).rstrip("\n") + "\n"


def _outdone(one: Rendering) -> str:
    """Which rows of a table end above the one that is the paper's best; Table 2 is compared stream by stream."""
    sections = [section for section in one.sections if section.rows[0].measure == "accuracy"]
    lines = []
    for section in sections if one.item.slug != "table2" else []:
        if found := outdone(section):
            best, above = found
            those = [f"{row.name} ({row.kind.shown(gap, sign=True)})" for row, gap in above]
            told = f"{'; '.join(those)} {'ends' if len(those) == 1 else 'end'} above it" if those else "it is the best"
            lines.append(f"**{one.item.title}.** The paper's best row is {best.name}; here {told}.\n")
    return "\n".join(lines)


def _gains(table: Rendering) -> str:
    lines = ["## What each method gains on ER\n"]
    if not (found := [sheet for section in table.sections if (sheet := gains.sheet(section))]):
        return "\n".join([*lines, "Nothing has been run yet beside ER.\n"])
    lines.append(
        "One seed gives all methods the same order of classes and the same weights to begin with, and a hard order "
        "lowers them all. So here are the accuracies of Table 2 less ER's: the paper's from its means, for which it "
        "prints no interval, ours seed by seed.\n"
    )
    return "\n".join([*lines, *map(_titled, found)])


def _differing(rows: Sequence[Row], known: Sequence[Finding]) -> str:
    lines = ["## Rows that differ from the paper\n"]
    if not rows:
        return "\n".join([*lines, "None of the rows that have been run does, with the seeds there are.\n"])
    for row in rows:
        ours = row.kind.shown(row.ours.mean if row.ours else None)
        place = f"{row.data}, memory {row.memory}" if row.memory is not None else row.data
        place += ", with a neck" if row.neck else ""
        lines.append(f"- **{row.name}** on {place}: paper {row.kind.shown(row.published)}, ours {ours}.")
        about = [finding for finding in known if finding.about(row)]
        lines += [
            f"  - `{finding.tried}` gave {row.kind.shown(finding.number)}, which rules out {finding.rules_out}."
            for finding in about
        ]
        if not about:
            lines[-1] += f" This is {UNEXPLAINED}."
        elif not any(finding.explains for finding in about):
            lines.append("  - What causes the difference is not known.")
    return "\n".join(lines) + "\n"


def _further(results: Sequence[Result]) -> str:
    lines = ["## What the paper did not measure\n"]
    if not results:
        return "\n".join([*lines, "Nothing has been run yet.\n"])
    lines.append(
        "Forgetting, the accuracy at any time and in the worst case, as [the protocol](protocol.md) defines them. Time "
        "is taken elsewhere: these runs shared their machine with others, so their seconds say nothing. Steps of all "
        "methods were timed side by side ([results](../results/README.md#speed-of-all-methods)).\n"
    )
    lines += [f"**{_plain(stream.title)}**\n\n{texts.markdown(stream.further())}" for stream in streams(results)]
    return "\n".join(lines)


def _plain(title: str) -> str:
    return title.replace("|", r"\|")
