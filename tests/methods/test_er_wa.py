import copy
from functools import partial

import numpy as np
import pytest
import torch

from evenhand import Learner, errors, resolve
from evenhand.backbones import MLP
from evenhand.methods.er_wa import TEACHER
from reference import er_wa, losses
from reference.predictor import dot

STAGES = [["b", "a"], [7, 3], ["c"]]


def batch(seed):
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(seed))


def learned(method, stages, **options):
    """A learner that has seen some stages; each but the last has ended."""
    learner = Learner(MLP((4,), hidden=0), method, **{"memory": 10, "lr": 0.5, "device": "cpu"} | options)
    for number, labels in enumerate(STAGES[:stages]):
        if number:
            learner.boundary()
        for step in range(5):
            learner.observe(batch(10 * number + step), (labels * 6)[:6])
    return learner


def head_of(learner):
    head = copy.deepcopy(learner.network.head)
    return head.weight.tolist(), head.bias.tolist()


@pytest.mark.parametrize(("stages", "old", "new"), [(1, [], [0, 1]), (2, [0, 1], [2, 3]), (3, [0, 1, 2, 3], [4])])
def test_alignment_at_a_boundary(stages, old, new):
    learner = learned("er_wa", stages)
    W, b = head_of(learner)
    learner.boundary()
    aligned, bias = head_of(learner)
    assert np.allclose(aligned, er_wa.aligned(W, old, new), rtol=1e-5, atol=0)
    assert bias == b
    assert aligned[: len(old)] == W[: len(old)]
    if old:
        assert not np.allclose(aligned, W, rtol=1e-3)
        assert not np.allclose(aligned, er_wa.aligned(W, new, old), rtol=1e-3)  # the mutation: old to new
        norms = np.linalg.norm(aligned, axis=1)
        assert norms[old].mean() == pytest.approx(norms[new].mean(), rel=1e-5)


def test_new_rows_that_were_all_clipped_to_zero_stay_zero():
    learner = learned("er_wa", 2)
    learner.network.head.weight.data[2:] = 0
    learner.boundary()
    assert torch.equal(learner.network.head.weight[2:], torch.zeros(2, 4))


def test_alignment_by_hand():
    """Mean norms 4 and 2: the new rows are doubled."""
    learner = learned("er_wa", 2)
    head = learner.network.head
    rows = [[3.0, 0, 0, 0], [0, 3.0, 4.0, 0], [1.0, 0, 0, 0], [0, 0, 0, -3.0]]
    head.weight.data, head.bias.data = torch.tensor(rows), torch.tensor([1.0, 2.0, 3.0, 4.0])
    learner.boundary()
    assert head.weight.tolist() == [*rows[:2], [2.0, 0, 0, 0], [0, 0, 0, -6.0]]
    assert head.bias.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_every_step_ends_without_negative_weights():
    clipped = learned("er_wa", 0)
    for step, free in enumerate([learned("er_wa(clip=False)", 0)] * 5):
        free.load_state_dict(clipped.state_dict(), clipped.facts())  # one step from the same weights
        for one in (free, clipped):
            one.observe(batch(step), [0, 1, 2] * 2)
        assert free.network.head.weight.min() < 0
        assert torch.equal(clipped.network.head.weight, free.network.head.weight.clamp(min=0))
        assert torch.equal(clipped.network.head.bias, free.network.head.bias)


def test_the_first_stage_changes_nothing():
    learner = learned("er_wa", 1)
    before = head_of(learner)
    learner.boundary()
    assert head_of(learner) == before


def test_a_stage_without_new_classes_changes_nothing():
    learner = learned("er_wa", 2)
    learner.boundary()
    learner.observe(batch(50), ["a", 7, "b", 3, "a", 7])
    before = head_of(learner)
    learner.boundary()
    assert head_of(learner) == before


def test_later_steps_go_on_from_the_aligned_weights():
    learner, plain = learned("er_wa(clip=False)", 3), learned("er", 3)
    assert not torch.allclose(learner.network.head.weight, plain.network.head.weight, rtol=1e-3)


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_without_persist_only_the_test_is_aligned(stages, same):
    learner, plain = learned("er_wa(persist=False, clip=False)", stages), learned("er", stages)
    for each in (learner, plain):
        each.boundary()
    W, b = head_of(learner)
    old = sum(len(labels) for labels in STAGES[: stages - 1])
    aligned = er_wa.aligned(W, list(range(old)), list(range(old, len(W))) if old else [])
    x = batch(99)
    for _ in range(2):  # asking twice does not align twice
        assert np.allclose(learner.scores(x), [dot((aligned, b), h) for h in x.tolist()], rtol=0, atol=1e-4)
    assert np.allclose(learner.scores(x), [dot((W, b), h) for h in x.tolist()], rtol=0, atol=1e-4) == (stages == 1)
    assert same(learner, plain, but=["kept"])


@pytest.mark.parametrize("method", ["er_wa", "er_wa(persist=False)"])
def test_the_test_follows_later_changes(method):
    learner = learned(method, 2)
    learner.boundary()
    x = batch(99)
    learner.predict(x)
    learner.observe(batch(60), ["c"] * 6)
    W, b = head_of(learner)
    if method != "er_wa":
        W = er_wa.aligned(W, [0, 1], [2, 3])
    assert np.allclose(learner.scores(x), [dot((W, b), h) for h in x.tolist()], rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("method", "reference"),
    [
        ("er_wa", losses.er),
        ("er_wa(distil=True)", losses.er),
        ("er_wa+uer(alpha=0.3)", lambda *batches: losses.uer(*batches, alpha=0.3)),
    ],
)
def test_within_a_stage_it_learns_as_its_scoring_says(method, reference):
    learner = learned(method, 0, memory=6)
    learner.observe(batch(0), ["b", "a"] * 3)
    W, b = head_of(learner)
    learner.observe(batch(1), ["b", "b", "a"] * 2)
    pairs = [
        list(zip(batch(1).tolist(), [0, 0, 1] * 2, strict=True)),
        list(zip(batch(0).tolist(), [0, 1] * 3, strict=True)),
    ]
    expected = reference({"head": (W, b)}, *pairs)
    found, bias = head_of(learner)
    assert np.allclose(found, np.maximum(np.array(W) - 0.5 * expected["head.W"], 0), rtol=0, atol=1e-5)
    assert np.allclose(bias, np.array(b) - 0.5 * expected["head.b"], rtol=0, atol=1e-5)


def taught(method, reference):
    """Whether a step of the second stage ends at the W and b of a reference; the memory is the first stage's batch."""
    learner = learned(method, 0, memory=6, replay=6, lr=0.1)
    learner.observe(batch(0), ["b", "a"] * 3)
    learner.boundary()
    learner.observe(batch(1)[:2], [7, 3])
    W, b = head_of(learner)
    stored = learner.memory.read(torch.arange(6))
    learner.observe(batch(2), [7, 3, 7] * 2)
    teacher = learner.kept[TEACHER].head
    expected = reference(
        {"head": (W, b)},
        list(zip(batch(2).tolist(), [2, 3, 2] * 2, strict=True)),
        list(zip(stored.x.tolist(), stored.y.tolist(), strict=True)),
        teacher=(teacher.weight.tolist(), teacher.bias.tolist()),
    )
    found, bias = head_of(learner)
    weights = np.maximum(np.array(W) - 0.1 * expected["head.W"], 0)
    return np.allclose(found, weights, rtol=0, atol=1e-5) and np.allclose(
        bias, np.array(b) - 0.1 * expected["head.b"], rtol=0, atol=1e-5
    )


@pytest.mark.parametrize(
    ("method", "alpha"), [("er_wa(distil=True)", None), ("er_wa(distil=True)+uer(alpha=0.3)", 0.3)]
)
def test_the_last_network_teaches_the_old_classes(method, alpha):
    assert taught(method, partial(er_wa.distilled, old=2, alpha=alpha))
    for mutation in ({"share": 0.3}, {"share": 0}, {"temperature": 1.0}, {"alpha": 0.7}):
        assert not taught(method, partial(er_wa.distilled, **{"old": 2, "alpha": alpha, **mutation}))


def test_the_teacher_has_aligned_weights():
    learner = learned("er_wa(distil=True)", 2)
    before, _ = head_of(learner)
    learner.boundary()
    now, _ = head_of(learner)
    assert learner.kept[TEACHER].head.weight.tolist() == now != before


@pytest.mark.parametrize("option", ["persist", "clip", "distil"])
def test_options_are_checked(option):
    with pytest.raises(errors.InputError, match=f"The '{option}' parameter of er_wa must be True or False"):
        resolve(f"er_wa({option}=1)")
