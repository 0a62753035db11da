"""Captions: the verdict at the head of a scenario, and how to read each figure."""

from collections.abc import Sequence

from markupsafe import Markup

from evenhand import metrics
from evenhand.experiment.estimate import Estimate, Group, difference, differs
from evenhand.report.scenarios import Scenario, as_typed
from evenhand.report.styles import BAND_SEEDS, Styles

LEVEL = 0.0005  # a smaller difference does not show in one decimal of a percentage
MINUS, DASH, SPACE = "\u2212", "\u2013", "\u00a0"  # the space does not break
WORDS = dict(enumerate(("Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten"), 2))

CLASSES = (
    "Current classes belong to the stage just learned, previous ones to all stages before it. The closer the two "
    "accuracies, the less a method favours new classes."
)
STAGES = (
    "The current stage is the one just learned, previous ones are all before it; all have the same classes. The closer "
    "the two accuracies, the less a method favours what it learned last."
)
BY_CLASS = (
    "After the last stage, averaged over seeds by order of arrival. Norms and biases are those of the latest weights, "
    "also for methods tested with averaged ones. Nearest class means yield no probabilities. The dashed line is an "
    "equal share."
)
NEWEST = " Curves that rise or fall at the right end show that the head treats the newest classes differently."
CONFUSION = (
    "Each row shows what the samples of one class are predicted as; the diagonal is correct. The colour scale is a "
    "square root, so that rare confusions show."
)
ACCURACY_MATRIX = "Each row is one more stage learned; read down a column to see how well a stage is remembered."


def number(fraction: float | None) -> str:
    """A fraction as a percentage without the % sign, with a typographic minus; a dash for None."""
    return DASH if fraction is None else metrics.percent(fraction, unit="").replace("-", MINUS)


def tag(group: Group, styles: Styles) -> Markup:
    """The label of a group, marked in its colour."""
    return Markup('<b class="tag" style="--c: {}">{}</b>').format(styles[group.label].css, group.label)


def verdict(scenario: Scenario, styles: Styles) -> Markup:
    """What the seeds say about the compared methods, and what differs besides the method."""
    if len(scenario.compared) == 1:
        (group,) = scenario.compared
        level = f"{number(group.final.mean)}{_plus_minus(group.final)}{SPACE}%"
        text = Markup("{} ends at a final average accuracy of {}.").format(tag(group, styles), level)
        return text if group.final.half is not None else text + " One seed gives no interval."
    sentences = [_difference(scenario, styles), *_differing_settings(scenario, styles)]
    if scenario.images_changed:
        sentences.append(Markup("Not all runs saw the same images: the dataset changed in between."))
    if scenario.precisions_mixed:
        sentences.append(Markup("Some runs were computed in bf16, others in fp32."))
    return Markup(" ").join(sentences)


def _difference(scenario: Scenario, styles: Styles) -> Markup:
    """The difference in final accuracy between challenger and reference, paired by seed."""
    reference, challenger = scenario.compared
    names = {"challenger": tag(challenger, styles), "reference": tag(reference, styles)}
    gap = difference(challenger, reference, metrics.average)
    if gap is None:
        return Markup("{challenger} and {reference} share no seed, so nothing pairs their accuracies.").format(**names)
    side = "above" if gap.mean > 0 else "below"
    size = f"{number(abs(gap.mean))}{_plus_minus(gap)}{SPACE}points"
    relation = f"{size} {side}" if abs(gap.mean) >= LEVEL else "level with"
    seeds = len(gap.values)
    basis = f"final average accuracy, 95 % interval, {seeds} paired seeds"
    if gap.half is None:
        text = Markup("{challenger} ends {relation} {reference} on one common seed, which settles nothing.")
    else:
        text = Markup("{challenger} ends {relation} {reference} ({basis}).")
        if abs(gap.mean) <= gap.half:
            text = Markup("{words} seeds cannot separate {challenger} from {reference}: ") + text
    return text.format(**names, relation=relation, basis=basis, words=WORDS.get(seeds, seeds))


def _differing_settings(scenario: Scenario, styles: Styles) -> list[Markup]:
    """The settings besides the method in which groups differ; the labels of a single method already name them."""
    if len({group.method for group in scenario.groups}) == 1:
        return []
    reference, challenger = scenario.compared
    differing = differs(reference, challenger) if reference.method != challenger.method else []
    sentences = []
    if differing:
        values = [Markup("{} is {}").format(name, _values(scenario.compared, styles, name)) for name in differing]
        sentences.append(Markup("Their settings differ too: {}.").format(Markup("; ").join(values)))
    names = dict.fromkeys(name for group in scenario.groups for name in differs(scenario.groups[0], group))
    if others := [name for name in names if name not in differing]:
        sentences.append(Markup("Not all methods use the same {}.").format(", ".join(others)))
    return sentences


def accuracy(scenario: Scenario) -> str:
    """What lines, bands, bars and ticks are in the accuracy figures."""
    shown = scenario.detailed
    seeds = max(len(group.runs) for group in shown)
    if seeds == 1:
        return f"One seed{' per method' if len(scenario.groups) > 1 else ''}, so there are no intervals."
    if scenario.stages == 1:
        return "Bars are 95 % intervals, ticks are single seeds."
    if seeds < BAND_SEEDS:
        text = "Thick lines are means, thin lines the two seeds. "
        text += "Their 95 % interval, too wide for a band, is the bar in the last panel."
    else:
        text = "Thick lines are means over seeds, thin lines single seeds, bands and bars 95 % intervals."
    if len(shown) < len(scenario.groups):
        text += f" Seeds and bands are drawn for {' and '.join(group.label for group in shown)} only."
    return text


def previous_current(scenario: Scenario) -> str:
    """What previous and current mean."""
    return STAGES if scenario.at_once else CLASSES


def by_class(scenario: Scenario) -> str:
    """How to read the figures of the head."""
    return BY_CLASS if scenario.at_once else BY_CLASS + NEWEST


def confusion(scenario: Scenario, shown: int) -> str:
    """How to read confusion matrices, and how many of the methods are shown."""
    count = len(scenario.groups)
    return CONFUSION + (f" {shown} of {count} methods are shown." if shown < count else "")


def _plus_minus(estimate: Estimate) -> str:
    """Half the interval with its sign; empty for a single seed."""
    return "" if estimate.half is None else f"{SPACE}±{SPACE}{number(estimate.half)}"


def _values(groups: Sequence[Group], styles: Styles, name: str) -> Markup:
    """The value of a setting in each group."""
    values = [(as_typed(getattr(group.spec, name)), tag(group, styles)) for group in groups]
    return Markup(", ").join(Markup("{} with {}").format(*pair) for pair in values)
