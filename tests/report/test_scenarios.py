import pytest

from evenhand import metrics
from evenhand.experiment.estimate import difference
from evenhand.report.scenarios import scenarios

THREE = [[0.9], [0.5, 0.7], [0.4, 0.6, 0.8]]


def test_runs_that_differ_in_the_seed_alone_are_one_group(run, matrix):
    (scenario,) = scenarios([run("er", matrix(0.4, 0.7), seed=s) for s in (2, 0, 1)] + [run("uer", matrix(0.5, 0.6))])
    assert [(group.label, group.seeds) for group in scenario.groups] == [("uer", [0]), ("er", [0, 1, 2])]


def test_metrics_over_seeds_are_those_computed_by_hand(run):
    other = [[0.7], [0.7, 0.7], [0.6, 0.2, 0.4]]
    (scenario,) = scenarios([run("er", THREE), run("er", other, seed=1)])
    (group,) = scenario.groups
    assert group.final.mean == pytest.approx((0.6 + 0.4) / 2)
    assert group.final.half == pytest.approx(12.7062 * 0.1, rel=1e-4)  # t of one degree of freedom, 0.2 / 2
    assert group.estimate(metrics.previous).mean == pytest.approx((0.5 + 0.4) / 2)
    assert group.estimate(metrics.current).mean == pytest.approx(0.6)
    assert group.estimate(metrics.forgetting).mean == pytest.approx((0.3 + 0.3) / 2)
    assert group.matrix()[2].tolist() == pytest.approx([0.5, 0.4, 0.6])
    assert [point and round(point.mean, 6) for point in group.by_stage(metrics.previous)] == [None, 60, 45]


def test_differences_are_paired_by_seed(run, matrix):
    er = [run("er", matrix(p, p), seed=s) for s, p in enumerate((0.2, 0.5, 0.9))]
    uer = [run("uer", matrix(p, p), seed=s) for s, p in ((1, 0.6), (2, 0.9), (3, 0.1))]
    (scenario,) = scenarios(er + uer)
    gap = difference(*reversed(scenario.compared), metrics.average)
    assert gap.values == pytest.approx((0.1, 0.0))  # seeds 1 and 2; the others have no partner


def test_every_stream_and_memory_is_a_scenario(run, matrix):
    results = [
        run("er", matrix(0.4, 0.7), memory=1000),
        run("er", matrix(0.4, 0.7), memory=500),
        run("er", matrix(0.4, 0.7), data="cifar10"),
        run("er", [[0.5]], order="iid"),
        run("er", [[0.5]], order="iid++"),
    ]
    assert [scenario.title for scenario in scenarios(results)] == [
        "cifar10, memory 200",
        "fashion-cut, memory 500",
        "fashion-cut, memory 1000",
        "fashion-cut, memory 200, iid",
        "fashion-cut, memory 200, iid++",
    ]


@pytest.mark.parametrize(("order", "name"), [("classes", ""), ("blurry", ", blurry")])
def test_stages_are_in_the_title_where_they_differ(run, matrix, order, name):
    results = [run("er", matrix(0.4, 0.7, stages), order=order) for stages in (1, 2, 4)]
    other = run("er", matrix(0.4, 0.7, 3), order="smooth")
    assert [scenario.title for scenario in scenarios([*results, other])] == [
        f"fashion-cut, memory 200{name}, 1 stage",
        f"fashion-cut, memory 200{name}, 2 stages",
        f"fashion-cut, memory 200{name}, 4 stages",
        "fashion-cut, memory 200, smooth",
    ]
    assert scenarios(results[1:2])[0].title == f"fashion-cut, memory 200{name}"


def test_labels_distinguish_settings_of_the_same_method(run, matrix):
    runs = [run("uer", matrix(0.4, p), lr=lr) for lr, p in ((0.1, 0.9), (0.03, 0.8))] + [run("er", matrix(0.4, 0.7))]
    (scenario,) = scenarios(runs)
    assert [group.label for group in scenario.groups] == ["uer, lr 0.1", "uer, lr 0.03", "er"]
    assert dict(scenario.settings())["lr"] == [("0.1", ["uer, lr 0.1", "er"]), ("0.03", ["uer, lr 0.03"])]


@pytest.mark.parametrize(
    ("methods", "compared"),
    [
        (("er", "uer", "best"), ["er", "uer"]),
        (("lucir", "best"), ["lucir", "best"]),
        (("er", "lucir", "best"), ["er", "best"]),
        (("lucir", "uer"), ["lucir", "uer"]),
        (("mir", "er"), ["mir", "er"]),
        (("er",), ["er"]),
    ],
)
def test_er_and_uer_are_compared_if_both_ran(run, matrix, methods, compared):
    level = {"best": 0.9, "er": 0.8, "lucir": 0.7, "mir": 0.6, "uer": 0.5}
    (scenario,) = scenarios([run(m, matrix(level[m], level[m])) for m in methods])
    assert [group.label for group in scenario.compared] == compared


def test_classes_are_averaged_by_arrival_and_named_only_in_one_order(run, matrix):
    one, other = run("er", matrix(0.4, 0.7), tilt=1.0), run("er", matrix(0.4, 0.7), seed=1)
    (scenario,) = scenarios([one, other])
    assert scenario.class_names is None
    assert scenario.bounds == (2, 4, 6)
    assert [point.mean for point in scenario.groups[0].by_class("norm")] == [1, 1, 1, 1, 1.5, 1.5]
    assert scenario.groups[0].confusion()[0].tolist() == pytest.approx([0.8, 0, 0, 0, 0, 0.2])
    (alone,) = scenarios([one])
    assert alone.class_names == one.classes


def test_a_label_means_the_same_in_every_scenario(run, matrix):
    def labels(*runs):
        return [[group.label for group in scenario.groups] for scenario in scenarios(runs)]

    small, large = run("er", matrix(0.4, 0.7), lr=0.1), run("er", matrix(0.4, 0.7), memory=500, lr=0.001)
    assert labels(small, large) == [["er, lr 0.1"], ["er, lr 0.001"]]
    assert labels(small, run("er", matrix(0.4, 0.7), memory=500, lr=0.1)) == [["er"], ["er"]]


def test_a_class_that_never_arrived_in_one_run_leaves_the_others_as_they_are(run, matrix):
    whole, short = run("er", matrix(0.4, 0.7)), run("er", matrix(0.4, 0.7), seed=1)
    last = short.records[-1]
    last["arrival"].pop()
    last["confusion"] = [row[:-1] for row in last["confusion"][:-1]]
    last["probability"].pop()
    for values in last["head"].values():
        values.pop()
    (scenario,) = scenarios([short, whole])
    assert scenario.bounds == (2, 4, 6)
    mean, alone = scenario.groups[0].confusion(), scenarios([whole])[0].groups[0].confusion()
    assert mean.shape == (6, 6)
    assert mean[5].tolist() == pytest.approx(alone[5].tolist())
    assert mean.sum(1).tolist() == pytest.approx([1] * 6)
