import pytest

from evenhand.report import captions
from evenhand.report.collect import collect
from evenhand.report.look import looks


@pytest.fixture
def say():
    """The text of a caption, without its marks."""

    def speak(caption, results, *more):
        (section,) = collect(results)
        text = caption(section, looks([section]), *more).striptags()
        return text.replace("\u00a0", " ")

    return speak


def pair(run, matrix, er, uer, seeds=1, tilt=(0.0, 0.0)):
    made = []
    for name, level, tilted in (("er", er, tilt[0]), ("uer", uer, tilt[1])):
        for seed in range(seeds):
            previous, current = (value + 0.01 * seed for value in level)
            made.append(run(name, matrix(previous, current), seed=seed, tilt=tilted))
    return made


def test_previous_classes_are_told_from_the_side_that_keeps_more(run, matrix, say):
    ahead = say(captions.previous_current, pair(run, matrix, (0.66, 0.95), (0.741, 0.9)))
    behind = say(captions.previous_current, pair(run, matrix, (0.741, 0.95), (0.66, 0.9)))
    level = say(captions.previous_current, pair(run, matrix, (0.7, 0.95), (0.7, 0.9)))
    assert "uer keeps 74.1 % of the previous classes where er keeps 66.0 %" in ahead
    assert "on the current ones uer has 90.0 %, er 95.0 %" in ahead
    assert "Old and new are 15.9 points apart with uer, 29.0 points with er." in ahead
    assert "uer keeps only 66.0 % of the previous classes where er keeps 74.1 %" in behind
    assert "uer and er both keep 70.0 % of the previous classes" in level


def test_the_lead_names_the_best_and_the_side_of_the_difference(run, matrix, say):
    ahead = say(captions.lead, pair(run, matrix, (0.5, 0.5), (0.6, 0.6), seeds=3))
    behind = say(captions.lead, pair(run, matrix, (0.6, 0.6), (0.5, 0.5), seeds=3))
    assert ahead.startswith("uer ends highest, at 61.0 ± 2.5 %.")  # 4.3027 * 0.01 / sqrt(3)
    assert "uer ends 10.0 ± 0.0 points above er; the 95 % interval excludes zero" in ahead
    assert behind.startswith("er ends highest, at 61.0 ± 2.5 %.")
    assert "uer ends 10.0 ± 0.0 points below er" in behind


def test_a_difference_within_its_interval_is_called_unsettled(run, matrix, say):
    er = [run("er", matrix(p, p), seed=s) for s, p in enumerate((0.5, 0.6, 0.7))]
    uer = [run("uer", matrix(p, p), seed=s) for s, p in enumerate((0.7, 0.6, 0.6))]
    assert "includes zero, so these seeds do not settle it" in say(captions.verdict, er + uer)


def test_a_single_seed_has_no_interval_and_the_text_says_so(run, matrix, say):
    alone = [run("uer", matrix(0.5, 0.6))]
    assert say(captions.lead, alone).endswith("One seed, so there is no interval.")
    assert "One seed, so there are no intervals" in say(captions.by_stage, alone)
    assert "no interval, and another seed may say otherwise" in say(
        captions.verdict, pair(run, matrix, (0.5, 0.5), (0.6, 0.6))
    )
    assert "±" not in say(captions.lead, pair(run, matrix, (0.5, 0.5), (0.6, 0.6)))
    apart = [run("er", matrix(0.5, 0.5), seed=0), run("uer", matrix(0.5, 0.5), seed=1)]
    assert "no seed in common" in say(captions.verdict, apart)


def test_stages_are_counted_on_both_sides(run, say):
    er = run("er", [[0.9], [0.6, 0.6], [0.5, 0.5, 0.5]])
    uer = run("uer", [[0.9], [0.5, 0.5], [0.7, 0.7, 0.7]])
    text = say(captions.by_stage, [er, uer])
    assert "uer is above er after 1 of 3 stages and below it after 1; it ends at 70.0 %, er at 50.0 %." in text


@pytest.mark.parametrize(("seeds", "drawn"), [(2, "too wide for a band"), (3, "Bands are 95 % intervals")])
def test_the_caption_says_what_is_drawn(run, matrix, say, seeds, drawn):
    assert drawn in say(captions.by_stage, pair(run, matrix, (0.5, 0.5), (0.6, 0.6), seeds))


def test_the_head_is_told_class_by_class(run, matrix, say):
    text = say(captions.head, pair(run, matrix, (0.5, 0.6), (0.5, 0.6), tilt=(0.5, -0.25)))
    assert "The 2 of 6 classes that came in the last stage" in text
    assert "a norm 1.50 times as large with er, 0.75 times as large with uer" in text
    assert "bias is 0.50 higher with er, 0.25 lower with uer" in text
    assert "draw 42.9 % with er, 27.3 % with uer" in text  # 3 / 7 and 1.5 / 5.5
    assert "an even hand would give 33.3 %" in text


def test_confusion_counts_old_for_new_and_new_for_old(run, matrix, say):
    text = say(captions.confusion, pair(run, matrix, (0.5, 0.6), (0.5, 0.6), tilt=(0.5, 0.1)), 1)
    assert "Earlier classes taken for one of the last stage: 20.0 % with er, 4.0 % with uer." in text
    assert "The last stage taken for an earlier: 0.0 % with er, 0.0 % with uer." in text
    assert "Shown are 1 of 2 methods." in text


def test_the_largest_loss_is_found(run, say):
    er = run("er", [[0.9], [0.8, 0.7], [0.6, 0.2, 0.8]])
    uer = run("uer", [[0.5], [0.6, 0.7], [0.7, 0.8, 0.8]])
    text = say(captions.matrix, [er, uer])
    assert "er loses most on stage 2, from 70.0 % at best to 20.0 % at the end" in text
    assert "no stage of uer ends below its best" in text
