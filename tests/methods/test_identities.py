import itertools
import math

import pytest
import torch

from evenhand import Mix, Scoring, resolve
from evenhand.core.draws import generator
from evenhand.core.network import DualLinear

DOT, COS = Mix(dot=1), Mix(cos=1)
TABLE_1 = {  # learning, replaying, testing
    1: Scoring(DOT, DOT, "dot"),
    2: Scoring(DOT, DOT, "cos"),
    3: Scoring(COS, COS, "cos"),
    4: Scoring(COS, COS, "dot"),
    5: Scoring(DOT, COS, "dot"),
    6: Scoring(DOT, COS, "cos"),
    7: Scoring(COS, DOT, "cos"),
    8: Scoring(COS, DOT, "dot"),
}


def row(number):
    return resolve("er").but(scoring=TABLE_1[number])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (row(1), "er"),
        (row(3), "lucir"),
        (row(8), "uer_a"),
        ("uer(alpha=1)", "uer_a"),
        ("uer(alpha=1.0)", "uer_a"),
        ("uer(alpha=0)", row(4)),
        ("uer", "uer(alpha=0.5)"),
    ],
)
@pytest.mark.parametrize("backbone", ["cnn", "mlp"])
def test_two_ways_to_say_the_same_train_to_the_same_bits(one, other, backbone, train, same, images):
    a, b = train(one, backbone), train(other, backbone)
    assert same(a, b)
    [(x, _)] = images(1)
    assert torch.equal(a.scores(x), b.scores(x))


def test_alpha_0_is_lucir_that_is_tested_by_dot(train, same, images):
    ours, lucir = train("uer(alpha=0)"), train("lucir")
    [(x, _)] = images(1)
    assert same(ours, lucir)
    assert not torch.equal(ours.scores(x), lucir.scores(x))


@pytest.mark.parametrize(("one", "other"), [*itertools.combinations(["er", "lucir", "uer_a", "uer", row(5)], 2)])
def test_other_scorings_train_to_other_weights(one, other, train):
    a, b = (train(method, batches=2).network.head.weight for method in (one, other))
    assert a.shape == b.shape
    assert not torch.equal(a, b)


def test_table_1_is_four_trainings_tested_in_two_forms(train, same, images):
    [(x, _)] = images(1)
    learners = {number: train(row(number), batches=4) for number in TABLE_1}
    for one, other in [(1, 2), (3, 4), (5, 6), (7, 8)]:
        assert same(learners[one], learners[other])
        assert not torch.allclose(learners[one].scores(x), learners[other].scores(x))
    for one, other in itertools.combinations([1, 3, 5, 7], 2):
        assert not same(learners[one], learners[other])


def test_the_cosine_scores_are_those_of_the_angle(train, images):
    learner = train("lucir")
    [(x, _)] = images(1)
    with torch.no_grad():
        h = learner.eval_copy().features(x / 255)
        w = learner.network.head.weight
        angles = torch.nn.functional.cosine_similarity(h.unsqueeze(1), w.unsqueeze(0), dim=2)
    assert torch.allclose(learner.scores(x), 10 * angles, atol=1e-3)


def first_biases(seed=0):
    """The biases that four classes start with, in a head as wide as the small network's."""
    head = DualLinear(4 * 2 * 9)
    head.grow(4, generator(seed, "head"))
    return head.bias.detach()


def test_lucir_leaves_every_bias_as_it_started(train):
    learner = train("lucir")
    assert torch.equal(learner.network.head.bias, first_biases())


@pytest.mark.parametrize("method", ["er", "uer", "uer_a", row(5)])
def test_the_biases_move_and_keep_their_sum(method, learner, images):
    made = learner(method)
    batches = images(20, size=20)
    assert set(batches[0][1]) == {0, 1, 2, 3}
    for x, y in batches:
        made.observe(x, y)
    bias, start = made.network.head.bias.detach(), first_biases()
    assert (bias - start).abs().max() > 1e-3
    assert math.isclose(bias.double().sum(), start.double().sum(), abs_tol=1e-5)


def norms(learner):
    return learner.network.head.weight.detach().double().norm(dim=1)


def smallest_growth(made, batches):
    """The smallest relative change of any |w_i| in any step."""
    made.observe(*batches[0])
    changes = []
    for x, y in batches[1:]:
        before = norms(made)
        made.observe(x, y)
        changes.append(float((norms(made)[: len(before)] / before - 1).min()))
    return min(changes)


@pytest.mark.parametrize("backbone", ["cnn", "mlp"])
def test_no_row_of_w_shrinks_under_cosine_alone(backbone, learner, images):
    assert smallest_growth(learner("lucir", backbone), images(30)) > -1e-6


def test_rows_of_w_may_shrink_under_dot(learner, images):
    assert smallest_growth(learner("er", "mlp"), images(30)) < -1e-4
