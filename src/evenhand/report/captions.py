"""Captions: what a figure shows, in words made from its numbers, whichever side they favour."""

from collections.abc import Callable

import numpy as np
from markupsafe import Markup

from evenhand import metrics
from evenhand.experiment.result import Result
from evenhand.report.collect import Estimate, Group, Section, arrived, column, difference, shares
from evenhand.report.figures import detailed
from evenhand.report.look import Looks

LEVEL = 0.0005  # a difference that one decimal of a percentage does not show


def percent(fraction: float) -> str:
    """A fraction with one decimal, as 74.1 %."""
    return f"{number(fraction)} %"


def number(fraction: float | None) -> str:
    """A fraction as a percentage without its sign; a dash for what does not exist."""
    return "–" if fraction is None else f"{100 * fraction:.1f}".replace("-", "−")


def with_interval(estimate: Estimate) -> str:
    """A mean with its interval, where there is one."""
    half = "" if estimate.half is None else f" ± {number(estimate.half)}"
    return f"{number(estimate.mean)}{half} %"


def tag(group: Group, looks: Looks) -> Markup:
    """The name of a group, marked in its colour."""
    return Markup('<b class="tag" style="--c: {}">{}</b>').format(looks[group.label].css, group.label)


def lead(section: Section, looks: Looks) -> Markup:
    """Who ends highest, and whether the compared methods differ."""
    best, count = section.groups[0], len(section.groups)
    text = Markup("{} ends with a final average accuracy of {}. " if count == 1 else "{} ends highest, with {}. ")
    return text.format(tag(best, looks), with_interval(best.final)) + verdict(section, looks)


def verdict(section: Section, looks: Looks) -> Markup:
    """What the seeds say about the difference of the compared methods."""
    if len(section.focus) == 1:
        return Markup("" if section.groups[0].final.half is not None else "One seed, so there is no interval.")
    reference, challenger = section.focus
    gap = difference(challenger, reference, metrics.average)
    pair = (tag(challenger, looks), tag(reference, looks))
    if gap is None:
        return Markup("{} and {} share no seed, so their difference cannot be paired.").format(*pair)
    if gap.half is None:
        text = Markup("{} ends {} {}. With one seed in common there is no interval: another seed may say otherwise.")
        return text.format(pair[0], _relation(gap.mean), pair[1])
    text = Markup("Paired over {} seeds {} ends {} {}, ± {}: the 95 % interval {}.")
    settled = "excludes zero" if abs(gap.mean) > gap.half else "includes zero, so these seeds do not settle it"
    return text.format(len(gap.values), pair[0], _relation(gap.mean), pair[1], number(gap.half), settled)


def by_stage(section: Section, looks: Looks) -> Markup:
    """How the average accuracy goes from stage to stage."""
    curves = [_average_by_stage(group) for group in section.focus]
    if section.stages == 1:
        text = Markup("With one stage there is one accuracy for each method.")
    elif len(curves) == 1:
        text = Markup("{} goes from {} after the first stage to {} after the last.")
        text = text.format(tag(section.focus[0], looks), percent(curves[0][0]), percent(curves[0][-1]))
    else:
        reference, challenger = section.focus
        above = sum(b - a > LEVEL for a, b in zip(*curves, strict=True))
        below = sum(a - b > LEVEL for a, b in zip(*curves, strict=True))
        text = Markup("Of {} stages {} is above {} after {} and below after {}; it ends at {}, {} at {}.")
        names = tag(challenger, looks), tag(reference, looks)
        text = text.format(
            section.stages, *names, above, below, percent(curves[1][-1]), names[1], percent(curves[0][-1])
        )
    return text + " " + _drawn(section, looks)


def previous_current(section: Section, looks: Looks) -> Markup:
    """What is kept of the previous classes, and at which price."""
    kept = [group.each(lambda run: metrics.previous(run.accuracy) or 0).mean for group in section.focus]
    new = [group.each(lambda run: metrics.current(run.accuracy)).mean for group in section.focus]
    names = [tag(group, looks) for group in section.focus]
    if len(names) == 1:
        text = Markup("{} keeps {} of the previous classes and has {} on the current ones.")
        return text.format(names[0], percent(kept[0]), percent(new[0]))
    if kept[1] - kept[0] > LEVEL:
        text = Markup("{1} keeps {3} of the previous classes where {0} keeps {2}")
    elif kept[0] - kept[1] > LEVEL:
        text = Markup("{1} keeps only {3} of the previous classes where {0} keeps {2}")
    else:
        text = Markup("{1} and {0} both keep {2} of the previous classes")
    gaps = [abs(now - before) for now, before in zip(new, kept, strict=True)]
    text += Markup("; on the current ones {1} has {5}, {0} {4}. Old and new are {6} apart with {1}, {7} with {0}.")
    return text.format(*names, *map(percent, kept), *map(percent, new), _points(gaps[1]), _points(gaps[0]))


def head(section: Section, looks: Looks) -> Markup:
    """Whether the newest classes stand out in norm, bias and probability."""
    if _newest(section) == 0:
        ranges = [(tag(group, looks), group.by_class("norm")) for group in section.focus]
        return Markup("; ").join(
            Markup("|w| runs from {:.2f} to {:.2f} over the classes of {}").format(*_range(table), name)
            for name, table in ranges
        ) + Markup(". No class is newer than another.")
    norms = _each(section, looks, lambda run: _ratio(column(run, "norm"), arrived(run)), lambda v: f"{v:.2f} times")
    biases = _each(section, looks, lambda run: _excess(column(run, "bias"), arrived(run)), _signed)
    drawn = _each(section, looks, lambda run: sum(column(run, "probability")[arrived(run) :]), percent)
    text = Markup(
        "Against the earlier classes, those of the last stage have, on average, a norm of {}, and a bias changed by {}. "
        "They are {} of {} classes, and draw {} of the predicted probability; an even hand would give them {}."
    )
    even = _newest(section) / section.bounds[-1]
    return text.format(norms, biases, _newest(section), section.bounds[-1], drawn, percent(even))


def confusion(section: Section, looks: Looks) -> Markup:
    """How often old classes are taken for new ones, and new ones for old."""
    if _newest(section) == 0:
        hits = _each(section, looks, lambda run: float(np.diag(shares(run)).mean()), percent)
        return Markup("On the diagonal, predicted rightly: {}.").format(hits)
    old = _each(section, looks, lambda run: float(shares(run)[: arrived(run), arrived(run) :].sum(1).mean()), percent)
    new = _each(section, looks, lambda run: float(shares(run)[arrived(run) :, : arrived(run)].sum(1).mean()), percent)
    text = Markup("Samples of earlier classes taken for one of the last stage: {}. The other way round: {}.")
    return text.format(old, new)


def matrix(section: Section, looks: Looks) -> Markup:
    """Where most was lost."""
    found = []
    for group in section.focus:
        table = group.matrix()
        losses = np.nanmax(table[:, :-1], axis=0) - table[-1, :-1]
        stage, name = int(losses.argmax()), tag(group, looks)
        if losses[stage] <= LEVEL:
            found.append(Markup("no stage of {} ends below its best").format(name))
        else:
            text = Markup("{} loses most on stage {}, from {} at its best to {} at the end")
            found.append(text.format(name, stage + 1, percent(np.nanmax(table[:, stage])), percent(table[-1, stage])))
    return Markup("Down a column one sees a stage being forgotten: ") + Markup("; ").join(found) + "."


def _average_by_stage(group: Group) -> list[float]:
    matrices = [run.accuracy for run in group.runs]
    return [metrics.mean([metrics.average(a, i) for a in matrices]) for i in range(len(matrices[0]))]


def _drawn(section: Section, looks: Looks) -> Markup:
    """What the bands and lines are."""
    shown = [group for group in detailed(section) if len(group.runs) > 1]
    parts = [
        "Bands are 95 % intervals, thin lines single seeds" if shown else "One seed each, so there are no intervals"
    ]
    if shown and len(shown) < len(section.groups):
        parts.append(f", drawn for {' and '.join(group.label for group in shown)} alone")
    grey = sum(not looks[group.label].strong for group in section.groups)
    return Markup("{}.{}").format("".join(parts), f" The other {grey} methods are grey." if grey else "")


def _each(section: Section, looks: Looks, value: Callable[[Result], float], write: Callable[[float], str]) -> Markup:
    """A number for each compared method."""
    parts = [Markup("{} with {}").format(write(group.each(value).mean), tag(group, looks)) for group in section.focus]
    return Markup(", ").join(parts)


def _newest(section: Section) -> int:
    """How many classes came in the last stage, if others came before."""
    return section.bounds[-1] - section.bounds[-2] if section.stages > 1 else 0


def _relation(gap: float) -> str:
    if abs(gap) < LEVEL:
        return "level with"
    return f"{_points(abs(gap))} {'above' if gap > 0 else 'below'}"


def _points(gap: float) -> str:
    return f"{number(gap)} points"


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _range(table: "np.typing.NDArray[np.float64]") -> tuple[float, float]:
    mean = np.nanmean(table, axis=0)
    return float(mean.min()), float(mean.max())


def _ratio(values: list[float], old: int) -> float:
    return metrics.mean(values[old:]) / metrics.mean(values[:old])


def _excess(values: list[float], old: int) -> float:
    return metrics.mean(values[old:]) - metrics.mean(values[:old])
