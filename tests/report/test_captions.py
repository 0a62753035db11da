from dataclasses import replace

import pytest

from evenhand.report import captions
from evenhand.report.scenarios import scenarios
from evenhand.report.styles import assign_styles


def verdict(results):
    """The text of a verdict, without its markup."""
    (scenario,) = scenarios(results)
    return captions.verdict(scenario, assign_styles([scenario])).striptags().replace("\u00a0", " ")


def accuracy(results):
    (scenario,) = scenarios(results)
    return captions.accuracy(scenario)


def at_once(result):
    """The same run, all of whose classes arrived in the first stage."""
    last = result.records[-1]["arrival"]
    return replace(result, records=[{**record, "arrival": last} for record in result.records])


def pair(run, matrix, er, uer, seeds=1):
    """Runs of er and uer whose accuracies rise by a point with every seed."""
    levels = {"er": er, "uer": uer}
    return [
        run(name, matrix(level + 0.01 * seed, level + 0.01 * seed), seed=seed)
        for name, level in levels.items()
        for seed in range(seeds)
    ]


@pytest.mark.parametrize(("er", "uer", "side"), [(0.5, 0.6, "above"), (0.6, 0.5, "below")])
def test_the_verdict_names_the_side_of_a_difference_that_excludes_zero(run, matrix, er, uer, side):
    assert verdict(pair(run, matrix, er, uer, seeds=3)) == (
        f"uer ends 10.0 ± 0.0 points {side} er (final average accuracy, 95 % interval, 3 paired seeds)."
    )


def test_seeds_whose_interval_includes_zero_cannot_separate_methods(run, matrix):
    er = [run("er", matrix(p, p), seed=s) for s, p in enumerate((0.5, 0.6, 0.7))]
    uer = [run("uer", matrix(p, p), seed=s) for s, p in enumerate((0.7, 0.6, 0.6))]
    assert verdict(er + uer) == (  # 4.3027 * 0.1528 / sqrt(3)
        "Three seeds cannot separate uer from er: "
        "uer ends 3.3 ± 37.9 points above er (final average accuracy, 95 % interval, 3 paired seeds)."
    )
    assert verdict(pair(run, matrix, 0.5, 0.5, seeds=2)).startswith(
        "Two seeds cannot separate uer from er: uer ends level with er"
    )
    assert verdict(pair(run, matrix, 0.5, 0.5, seeds=12)).startswith("12 seeds cannot separate")


def test_one_seed_settles_nothing_and_no_common_seed_pairs_nothing(run, matrix):
    text = verdict(pair(run, matrix, 0.5, 0.6))
    assert text == "uer ends 10.0 points above er on one common seed, which settles nothing."
    apart = [run("er", matrix(0.5, 0.5), seed=0), run("uer", matrix(0.5, 0.5), seed=1)]
    assert verdict(apart).startswith("uer and er share no seed")


def test_a_single_method_has_its_accuracy_as_a_verdict(run, matrix):
    alone = [run("uer", matrix(0.5, 0.5))]
    assert verdict(alone) == "uer ends at a final average accuracy of 50.0 %. One seed gives no interval."
    three = [run("uer", matrix(p, p), seed=s) for s, p in enumerate((0.5, 0.51, 0.52))]
    assert verdict(three) == "uer ends at a final average accuracy of 51.0 ± 2.5 %."  # 4.3027 * 0.01 / sqrt(3)


def test_the_verdict_names_the_settings_that_differ(run, matrix):
    er, uer = run("er", matrix(0.5, 0.5)), run("uer", matrix(0.4, 0.4), lr=0.01, neck=True)
    assert verdict([er, uer]).endswith(
        "settles nothing. "
        "Their settings differ too: lr is 0.1 with er, 0.01 with uer; neck is false with er, true with uer."
    )
    assert "settings" not in verdict([er, run("uer", matrix(0.4, 0.4))])
    apart = verdict([er, run("uer", matrix(0.4, 0.4), seed=1, lr=0.01)])
    assert apart.endswith("Their settings differ too: lr is 0.1 with er, 0.01 with uer.")


def test_the_verdict_says_that_the_images_changed(run, matrix):
    runs = pair(run, matrix, 0.5, 0.6, seeds=3)
    seen = [replace(one, environment={"data": digest}) for one, digest in zip(runs, ["", *5 * ["a"]], strict=True)]
    assert "images" not in verdict(seen)
    seen[-1] = replace(seen[-1], environment={"data": "b"})
    assert verdict(seen).endswith(" Not all runs saw the same images: the dataset changed in between.")


def test_the_verdict_says_that_the_precisions_differ(run, matrix):
    runs = pair(run, matrix, 0.5, 0.6, seeds=2)
    assert "bf16" not in verdict([replace(one, environment={"precision": "bf16"}) for one in runs])
    runs[0] = replace(runs[0], environment={"precision": "bf16"})  # the others are of a time before there was a choice
    assert verdict(runs).endswith(" Some runs were computed in bf16, others in fp32.")


def test_the_verdict_names_the_settings_in_which_other_methods_differ(run, matrix):
    er, uer = run("er", matrix(0.5, 0.5)), run("uer", matrix(0.4, 0.4))
    text = verdict([er, uer, run("mir", matrix(0.9, 0.9), lr=0.01, batch=5)])
    assert text.endswith("settles nothing. Not all methods use the same batch, lr.")
    text = verdict([er, run("uer", matrix(0.4, 0.4), lr=0.01), run("mir", matrix(0.9, 0.9), batch=5)])
    assert text.endswith("lr is 0.1 with er, 0.01 with uer. Not all methods use the same batch.")
    labelled = verdict([er, run("er", matrix(0.4, 0.4), lr=0.01)])  # er, lr 0.1 and er, lr 0.01
    assert labelled.endswith("settles nothing.")


@pytest.mark.parametrize(
    ("seeds", "drawn"),
    [(1, "One seed per method, so there are no intervals."), (2, "too wide for a band"), (3, "bands and bars 95 %")],
)
def test_the_caption_says_what_is_drawn(run, matrix, seeds, drawn):
    assert drawn in accuracy(pair(run, matrix, 0.5, 0.6, seeds))


def test_the_caption_says_whose_seeds_are_drawn(run, matrix):
    names = ("er", "uer", "mir", "gss", "scr")
    results = [run(name, matrix(0.5, 0.5), seed=seed) for name in names for seed in range(3)]
    assert accuracy(results).endswith("Seeds and bands are drawn for er and uer only.")
    assert "only" not in accuracy(results[:12])


@pytest.mark.parametrize(("order", "stages"), [("domains", 3), ("iid", 1)])
def test_captions_of_streams_without_new_classes_speak_of_none(run, matrix, order, stages):
    (scenario,) = scenarios([at_once(run("er", matrix(0.5, 0.6, stages), order=order))])
    assert "all have the same classes" in captions.previous_current(scenario)
    assert "new" not in captions.previous_current(scenario) + captions.by_class(scenario)
    (scenario,) = scenarios([run("er", matrix(0.5, 0.6))])
    assert "new classes" in captions.previous_current(scenario)
    assert "newest classes" in captions.by_class(scenario)


def test_the_caption_counts_the_confusion_matrices_it_shows(run, matrix):
    (scenario,) = scenarios(pair(run, matrix, 0.5, 0.6))
    assert captions.confusion(scenario, 1).endswith("1 of 2 methods are shown.")
    assert captions.confusion(scenario, 2) == captions.CONFUSION
