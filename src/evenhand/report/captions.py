"""Captions: what a figure shows, in words made from its numbers, whichever side they favour."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from markupsafe import Markup

from evenhand import metrics
from evenhand.experiment.result import Result
from evenhand.report.collect import Section, shown
from evenhand.report.figures import BANDED, detailed
from evenhand.report.group import Estimate, Group, arrived, column, difference, differs, newest, shares
from evenhand.report.look import Looks

LEVEL = 0.0005  # a difference that one decimal of a percentage does not show
MINUS, DASH, SPACE = "\u2212", "\u2013", "\u00a0"  # the space does not break


def number(fraction: float | None) -> str:
    """A fraction as a percentage with one decimal and no sign of it; a dash for what does not exist."""
    return DASH if fraction is None else f"{round(100 * fraction, 1) + 0.0:.1f}".replace("-", MINUS)


def percent(fraction: float) -> str:
    """A fraction as in 74.1 %."""
    return f"{number(fraction)}{SPACE}%"


def points(gap: Estimate | float) -> str:
    """The size of a difference, with its interval where there is one."""
    if isinstance(gap, float):
        return f"{number(abs(gap))}{SPACE}points"
    return f"{number(abs(gap.mean))}{plus_minus(gap)}{SPACE}points"


def plus_minus(estimate: Estimate) -> str:
    """Half an interval with its sign; nothing for a single seed."""
    return "" if estimate.half is None else f"{SPACE}±{SPACE}{number(estimate.half)}"


def tag(group: Group, looks: Looks) -> Markup:
    """The name of a group, marked in its colour."""
    return Markup('<b class="tag" style="--c: {}">{}</b>').format(looks[group.label].css, group.label)


def lead(section: Section, looks: Looks) -> Markup:
    """Who ends highest, whether the compared methods differ, and in which settings they do."""
    best = section.groups[0]
    ends = "ends with a final average accuracy of" if len(section.groups) == 1 else "ends highest, at"
    level = f"{number(best.final.mean)}{plus_minus(best.final)}{SPACE}%"
    said = Markup("{} {} {}.").format(tag(best, looks), ends, level)
    return Markup(" ").join(filter(None, (said, verdict(section, looks), unlike(section, looks))))


def verdict(section: Section, looks: Looks) -> Markup:
    """What the seeds say about the difference of the compared methods."""
    if len(section.focus) == 1:
        return Markup("One seed, so there is no interval." if section.groups[0].final.half is None else "")
    reference, challenger = section.focus
    gap = difference(challenger, reference, metrics.average)
    names = tag(challenger, looks), tag(reference, looks)
    if gap is None:
        return Markup("{} and {} have no seed in common, so their difference is not paired.").format(*names)
    side = "above" if gap.mean > 0 else "below"
    relation = f"{points(gap)} {side}" if abs(gap.mean) >= LEVEL else "level with"
    if gap.half is None:
        text = Markup("{} ends {} {}, with one seed in common: no interval, and another seed may say otherwise.")
        return text.format(names[0], relation, names[1])
    settled = "excludes zero" if abs(gap.mean) > gap.half else "includes zero, so these seeds do not settle it"
    text = Markup("Paired over {} seeds, {} ends {} {}; the 95 % interval {}.")
    return text.format(len(gap.values), names[0], relation, names[1], settled)


def unlike(section: Section, looks: Looks) -> Markup:
    """The settings besides the method in which groups differ; of a single method the labels say it already."""
    if len({group.method for group in section.groups}) == 1:
        return Markup()
    reference, challenger = section.focus
    apart = differs(reference, challenger) if reference.method != challenger.method else []
    told = [Markup("{} is {}").format(name, _values(section.focus, looks, name)) for name in apart]
    found = [Markup("Their settings differ, too: {}.").format(Markup("; ").join(told))] if told else []
    names = dict.fromkeys(name for group in section.groups for name in differs(section.groups[0], group))
    if rest := [name for name in names if name not in apart]:
        found.append(Markup("Not all methods have the same {}.").format(", ".join(rest)))
    return Markup(" ").join(found)


def by_stage(section: Section, looks: Looks) -> Markup:
    """How the average accuracy goes from stage to stage."""
    names = [tag(group, looks) for group in section.focus]
    curves = [[point.mean if point else 0 for point in group.by_stage(metrics.average)] for group in section.focus]
    if section.stages == 1:
        seeds = max(len(group.runs) for group in section.groups)
        drawn = (
            "Bars are 95 % intervals, ticks single seeds" if seeds > 1 else "One seed each, so there are no intervals"
        )
        return Markup(f"There is one stage, and so one accuracy for each run. {drawn}.")
    if len(curves) == 1:
        text = Markup("{} goes from {} after the first stage to {} after the last.")
        text = text.format(names[0], percent(curves[0][0]), percent(curves[0][-1]))
    else:
        above = sum(b - a >= LEVEL for a, b in zip(*curves, strict=True))
        below = sum(a - b >= LEVEL for a, b in zip(*curves, strict=True))
        text = Markup("{1} is above {0} after {2} of {3} stages and below it after {4}; it ends at {6}, {0} at {5}.")
        text = text.format(
            *names, above or "none", section.stages, below or "none", *(percent(curve[-1]) for curve in curves)
        )
    return text + " " + _drawn(section, looks)


def previous_current(section: Section, looks: Looks) -> Markup:
    """What is kept of the previous classes, and what is had of the current ones."""
    names = [tag(group, looks) for group in section.focus]
    kept = [group.each(lambda run: metrics.previous(run.accuracy) or 0).mean for group in section.focus]
    new = [group.each(lambda run: metrics.current(run.accuracy)).mean for group in section.focus]
    if len(names) == 1:
        text = Markup("At the end {} keeps {} of the previous classes and has {} on the current ones.")
        return text.format(names[0], percent(kept[0]), percent(new[0]))
    if kept[1] - kept[0] >= LEVEL:
        text = Markup("At the end {1} keeps {3} of the previous classes where {0} keeps {2}")
    elif kept[0] - kept[1] >= LEVEL:
        text = Markup("At the end {1} keeps only {3} of the previous classes where {0} keeps {2}")
    else:
        text = Markup("At the end {1} and {0} both keep {2} of the previous classes")
    text += Markup("; on the current ones {1} has {5}, {0} {4}. Old and new are {7} apart with {1}, {6} with {0}.")
    gaps = [points(now - before) for now, before in zip(new, kept, strict=True)]
    return text.format(*names, *map(percent, kept), *map(percent, new), *gaps)


def head(section: Section, looks: Looks) -> Markup:
    """Whether the newest classes stand out in norm, bias and probability."""
    groups, count = _renewed(section), section.bounds[-1]
    if not groups:
        low = _each(section.focus, looks, lambda run: min(column(run, "probability")), percent)
        high = _each(section.focus, looks, lambda run: max(column(run, "probability")), percent)
        text = Markup("No class is newer than another. The least likely one draws {}, the likeliest {}; 1/{} is {}.")
        return text.format(low, high, count, percent(1 / count))
    runs = [run for group in groups for run in group.runs]
    new = sorted({newest(run) for run in runs})
    even = metrics.mean([newest(run) / len(run.records[-1]["arrival"]) for run in runs])
    norms = _each(groups, looks, lambda run: _ratio(column(run, "norm"), arrived(run)), _times)
    biases = _each(groups, looks, lambda run: _excess(column(run, "bias"), arrived(run)), _shift)
    drawn = _each(groups, looks, lambda run: sum(column(run, "probability")[arrived(run) :]), percent)
    text = Markup(
        "The {} of {} classes that came in the last stage have, next to the earlier ones, a norm {}. "
        "Their bias is {}. They draw {} of the predicted probability, where an even hand would give {}."
    )
    many = f"{new[0]} to {new[-1]}" if len(new) > 1 else new[0]
    return text.format(many, count, norms, biases, drawn, percent(even)) + _left_out(section, groups)


def confusion(section: Section, looks: Looks, shown: int) -> Markup:
    """How often old classes are taken for new ones, and new ones for old."""
    if groups := _renewed(section):
        old = _each(groups, looks, lambda run: _taken(run, new_for_old=False), percent)
        new = _each(groups, looks, lambda run: _taken(run, new_for_old=True), percent)
        text = Markup("Earlier classes taken for one of the last stage: {}. The last stage taken for an earlier: {}.")
        text = text.format(old, new) + _left_out(section, groups)
    else:
        hits = _each(section.focus, looks, lambda run: float(np.diag(shares(run)).mean()), percent)
        text = Markup("On the diagonal, rightly predicted, lie {}.").format(hits)
    count = len(section.groups)
    return text + (f" Shown are {shown} of {count} methods." if shown < count else "")


def matrix(section: Section, looks: Looks) -> Markup:
    """Where most was lost."""
    found = []
    for group in section.focus:
        table, name = group.matrix(), tag(group, looks)
        best, last = np.nanmax(table[:, :-1], axis=0), table[-1, :-1]
        stage = int((best - last).argmax())
        if best[stage] - last[stage] < LEVEL:
            found.append(Markup("no stage of {} ends below its best").format(name))
        else:
            text = Markup("{} loses most on stage {}, from {} at best to {} at the end")
            found.append(text.format(name, stage + 1, percent(best[stage]), percent(last[stage])))
    return Markup("Down a column a stage is remembered or forgotten: ") + Markup("; ").join(found) + "."


def _drawn(section: Section, looks: Looks) -> str:
    """What the bands and lines are."""
    shown = detailed(section)
    seeds = max(len(group.runs) for group in shown)
    if seeds == 1:
        text = f"One seed{' each' if len(section.groups) > 1 else ''}, so there are no intervals"
    elif seeds < BANDED:
        text = "Thin lines are the two seeds; the interval of two is too wide for a band and stands in the last panel"
    else:
        text = "Bands are 95 % intervals, thin lines single seeds"
    if seeds > 1 and len(shown) < len(section.groups):
        text += f", drawn for {' and '.join(group.label for group in shown)} only"
    grey = sum(not looks[group.label].strong for group in section.groups)
    return f"{text}. The other {grey} methods are grey." if grey else f"{text}."


def _each(
    groups: Sequence[Group], looks: Looks, value: Callable[[Result], float], write: Callable[[float], str]
) -> Markup:
    """A number for each group, the mean over its seeds."""
    parts = [Markup("{} with {}").format(write(group.each(value).mean), tag(group, looks)) for group in groups]
    return Markup(", ").join(parts)


def _values(groups: Sequence[Group], looks: Looks, name: str) -> Markup:
    """A setting of each group."""
    values = [(shown(getattr(group.runs[0].spec, name)), tag(group, looks)) for group in groups]
    return Markup(", ").join(Markup("{} with {}").format(*pair) for pair in values)


def _renewed(section: Section) -> list[Group]:
    """The compared groups, with those runs alone whose last stage brought new classes after others."""
    kept = [(group, tuple(run for run in group.runs if newest(run))) for group in section.focus]
    return [replace(group, runs=runs) for group, runs in kept if runs]


def _left_out(section: Section, groups: Sequence[Group]) -> str:
    """That some of the compared runs are not among these groups, if so."""
    fewer = sum(len(group.runs) for group in groups) < sum(len(group.runs) for group in section.focus)
    return " Runs whose last stage brought no new class are left out." if fewer else ""


def _taken(run: Result, new_for_old: bool) -> float:
    """The mean share of the last stage's classes predicted as earlier ones, or the other way round."""
    table, old = shares(run), arrived(run)
    return float((table[old:, :old] if new_for_old else table[:old, old:]).sum(1).mean())


def _times(value: float) -> str:
    return f"{value:.2f} times as large"


def _shift(value: float) -> str:
    return f"{abs(value):.2f} {'higher' if value > 0 else 'lower'}" if abs(value) >= 0.005 else "the same"


def _ratio(values: list[float], old: int) -> float:
    return metrics.mean(values[old:]) / metrics.mean(values[:old])


def _excess(values: list[float], old: int) -> float:
    return metrics.mean(values[old:]) - metrics.mean(values[:old])
