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


def test_the_lead_says_which_settings_differ(run, matrix, say):
    er, uer = run("er", matrix(0.5, 0.5)), run("uer", matrix(0.4, 0.4), lr=0.01, neck=True)
    text = say(captions.lead, [er, uer])
    assert "uer ends 10.0 points below er" in text
    assert text.endswith(
        "Their settings differ, too: lr is 0.1 with er, 0.01 with uer; neck is false with er, true with uer."
    )
    assert "settings" not in say(captions.lead, [er, run("uer", matrix(0.4, 0.4))])
    apart = say(captions.lead, [er, run("uer", matrix(0.4, 0.4), seed=1, lr=0.01)])
    assert apart.endswith(
        "so their difference is not paired. Their settings differ, too: lr is 0.1 with er, 0.01 with uer."
    )


def test_the_lead_says_that_others_have_other_settings(run, matrix, say):
    er, uer = run("er", matrix(0.5, 0.5)), run("uer", matrix(0.4, 0.4))
    text = say(captions.lead, [er, uer, run("mir", matrix(0.9, 0.9), lr=0.01, batch=5)])
    assert text.endswith("another seed may say otherwise. Not all methods have the same batch, lr.")
    text = say(captions.lead, [er, run("uer", matrix(0.4, 0.4), lr=0.01), run("mir", matrix(0.9, 0.9), batch=5)])
    assert text.endswith("lr is 0.1 with er, 0.01 with uer. Not all methods have the same batch.")
    labelled = say(captions.lead, [er, run("er", matrix(0.4, 0.4), lr=0.01)])  # er, lr 0.1 and er, lr 0.01
    assert labelled.endswith("another seed may say otherwise.")


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


def without_new(result, count=None):
    """Take from a run the classes of its last stage, all of them or as many as are said."""
    last = result.records[-1]
    kept = len(result.records[-2]["arrival"]) if count is None else len(last["arrival"]) - count
    last["arrival"] = last["arrival"][:kept]
    last["probability"] = last["probability"][:kept]
    last["head"] = {name: values[:kept] for name, values in last["head"].items()}
    last["confusion"] = [row[:kept] for row in last["confusion"][:kept]]
    return result


def test_a_run_whose_last_stage_brought_no_new_class_is_left_out(run, matrix, say):
    er = [run("er", matrix(0.5, 0.6), seed=seed, tilt=0.5) for seed in range(2)]
    uer = [run("uer", matrix(0.5, 0.6), seed=seed, tilt=0.1) for seed in range(2)]
    whole = [say(captions.head, [er[0], uer[0]]), say(captions.confusion, [er[0], uer[0]], 2)]
    gone = " Runs whose last stage brought no new class are left out."
    mixed = [er[0], without_new(er[1]), uer[0], without_new(uer[1])]
    assert say(captions.head, mixed) == whole[0] + gone
    assert say(captions.confusion, mixed, 2) == whole[1] + gone
    without_new(uer[0])
    text = say(captions.head, mixed)
    assert "a norm 1.50 times as large with er. Their" in text
    without_new(er[0])
    assert say(captions.head, mixed).startswith("No class is newer than another.")
    assert say(captions.confusion, mixed, 2).startswith("On the diagonal")


def test_as_many_classes_are_new_as_each_run_has(run, matrix, say):
    er = [run("er", matrix(0.5, 0.6)), without_new(run("er", matrix(0.5, 0.6), seed=1), 1)]
    text = say(captions.head, er)
    assert text.startswith("The 1 to 2 of 6 classes that came in the last stage")
    assert text.endswith("an even hand would give 26.7 %.")  # of 2 / 6 and 1 / 5


def test_the_largest_loss_is_found(run, say):
    er = run("er", [[0.9], [0.8, 0.7], [0.6, 0.2, 0.8]])
    uer = run("uer", [[0.5], [0.6, 0.7], [0.7, 0.8, 0.8]])
    text = say(captions.matrix, [er, uer])
    assert "er loses most on stage 2, from 70.0 % at best to 20.0 % at the end" in text
    assert "no stage of uer ends below its best" in text
