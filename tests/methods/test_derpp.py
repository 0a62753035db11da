from functools import partial

import numpy as np
import pytest
import torch

from evenhand import Batch, Learner, errors, resolve
from evenhand.backbones import MLP
from reference import derpp, losses

DIM, CLASSES = 5, 6
CURRENT, REPLAYED = [5, 1, 5, 3], [0, 2, 1, 2, 4, 0]
NAN = float("nan")


def compared(method, reference, views=1):
    """Whether loss and gradients of a method are those of a reference; R1 are the first three memories."""
    drawn = torch.Generator().manual_seed(views)
    normal = partial(torch.randn, generator=drawn, dtype=torch.float64)
    learner = Learner(MLP((DIM,), hidden=0), method, device="cpu")
    learner.network.grow(CLASSES, drawn)
    head = learner.network.double().head
    stored = normal(len(REPLAYED), 5)  # the column is narrower than the head: the sixth class came after all of them
    stored[0, 2:] = NAN
    stored[2, 3:] = NAN
    h, past = (normal(views * len(y), DIM).requires_grad_() for y in (CURRENT, REPLAYED))
    batch = Batch(h[: len(CURRENT)].detach(), torch.tensor(CURRENT), views=h)
    replay = Batch(past[: len(REPLAYED)].detach(), torch.tensor(REPLAYED), None, {"logits": stored}, views=past)
    pairs = list(zip(past.tolist(), REPLAYED * views, strict=True))
    halves = [[pair for i, pair in enumerate(pairs) if (i % 6 < 3) == former] for former in (True, False)]
    expected = reference(
        {"head": (head.weight.tolist(), head.bias.tolist())},
        list(zip(h.tolist(), CURRENT * views, strict=True)),
        *halves,
        stored=stored[:3].tolist() * views,
    )
    expected["replayed"] = np.zeros((views * 6, DIM))
    for name, rows in (("first", [0, 1, 2]), ("second", [3, 4, 5])):
        expected["replayed"][[row + 6 * view for view in range(views) for row in rows]] = expected[name]
    loss = learner.method.objective(learner, batch, replay).total
    leaves = {"head.W": head.weight, "head.b": head.bias, "current": h, "replayed": past}
    found = torch.autograd.grad(loss, list(leaves.values()))
    both = [(loss.item(), expected["loss"])] + [(g, expected[k]) for k, g in zip(leaves, found, strict=True)]
    return all(np.allclose(x, y, rtol=1e-9, atol=1e-12) for x, y in both)


def mean_over_all(layers, current, first, second, stored):
    """The squared distance divided by all entries, compared or not."""
    known = sum(value == value for row in stored for value in row)
    share = known / (len(stored) * CLASSES)
    return derpp.derpp(layers, current, first, second, stored, 0.1 * share, 0.5)


def zero_for_unknown(layers, current, first, second, stored):
    filled = [[value if value == value else 0.0 for value in row] for row in stored]
    return derpp.derpp(layers, current, first, second, filled, 0.1, 0.5)


def distance_by_cosine(layers, current, first, second, stored):
    normed = [(np.array(h) / np.linalg.norm(h), y) for h, y in first]
    return derpp.derpp(layers, current, [(h.tolist(), y) for h, y in normed], second, stored, 0.1, 0.5, alpha=0.3)


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize(
    ("method", "reference"),
    [
        ("derpp", partial(derpp.derpp, a=0.1, b=0.5)),
        ("derpp(a=2, b=0.7)", partial(derpp.derpp, a=2, b=0.7)),
        ("derpp+uer(alpha=0.3)", partial(derpp.derpp, a=0.1, b=0.5, alpha=0.3)),
    ],
)
def test_loss_and_gradients(method, reference, views):
    assert compared(method, reference, views)


@pytest.mark.parametrize(
    ("method", "mutant"),
    [
        ("derpp", partial(derpp.derpp, a=0.5, b=0.1)),
        ("derpp", mean_over_all),
        ("derpp", zero_for_unknown),
        ("derpp", partial(derpp.derpp, a=0.1, b=0.5, alpha=0.3)),
        ("derpp+uer(alpha=0.3)", partial(derpp.derpp, a=0.1, b=0.5, alpha=0.7)),
        ("derpp+uer(alpha=0.3)", distance_by_cosine),
    ],
)
def test_a_wrong_equation_is_noticed(method, mutant):
    assert not compared(method, mutant)


def test_distance_by_hand():
    """W = 0 and b = (1, 2, 3): against (0, 2, -) and (-, 5, 1) the squares are 1, 0, 9 and 4, four entries in all."""
    learner = Learner(MLP((2,), hidden=0), "derpp(a=1, b=0)", device="cpu")
    learner.network.grow(3)
    learner.network.head.weight.data.zero_()
    learner.network.head.bias.data = torch.tensor([1.0, 2.0, 3.0])
    x, y = torch.ones(4, 2), torch.tensor([0, 1, 1, 0])
    stored = torch.tensor([[0, 2, NAN], [NAN, 5, 1], [100, 100, 100], [NAN, NAN, 100]])
    losses = learner.method.objective(learner, Batch(x, y), Batch(x, y, extra={"logits": stored}))
    assert losses.replaying.item() == pytest.approx(14 / 4)


def test_logits_are_stored_as_they_were_before_the_update():
    learner = Learner(MLP((4,), hidden=0), "derpp", memory=9, lr=0.5, device="cpu")
    drawn = torch.Generator().manual_seed(0)
    head, expected = learner.network.head, []
    learner.observe(torch.rand(3, 4, generator=drawn), ["b", "a", "b"])
    for labels in (["a", "b", "a"], ["b", "b", "a"]):
        x = torch.rand(3, 4, generator=drawn)
        expected.append((x @ head.weight.T + head.bias).detach())
        learner.observe(x, labels)
        assert not torch.allclose(x @ head.weight.T + head.bias, expected[-1], atol=1e-3)
    assert torch.allclose(learner.memory.columns["logits"][3:], torch.cat(expected), atol=1e-6)


@pytest.mark.parametrize("method", ["derpp", "derpp+uer"])
def test_stored_logits_are_dot_products_of_the_raw_view(method, images):
    learner = Learner(
        MLP((1, 8, 8), hidden=0), method, memory=20, augment="scr", views="concat", replay=5, device="cpu"
    )
    (x, y), (second, labels) = images(2, classes=2)
    learner.observe(x, y)
    head = learner.network.head
    expected = ((second.float() / 255).flatten(1) @ head.weight.T + head.bias).detach()
    learner.observe(second, labels)
    assert torch.allclose(learner.memory.columns["logits"][10:], expected, atol=1e-5)


def test_classes_unknown_at_insertion_have_no_logits():
    learner = Learner(MLP((4,), hidden=0), "derpp", memory=9, device="cpu")
    drawn = torch.Generator().manual_seed(0)
    for labels in ([0, 1, 0], [1, 2, 3], [0, 4, 2]):
        learner.observe(torch.rand(3, 4, generator=drawn), labels)
    known = (~learner.memory.columns["logits"].isnan()).sum(1)
    assert learner.memory.columns["logits"].shape == (9, 5)
    assert known.tolist() == [2] * 3 + [4] * 3 + [5] * 3
    learner.observe(torch.rand(3, 4, generator=drawn), [0, 1, 2])
    assert learner.network.head.weight.isfinite().all()


def moved_by(method, steps):
    """The memories that move W in each of some steps: memory i is the i-th unit vector, the stream brings zeros."""
    learner = Learner(MLP((8,), hidden=0), method, memory=8, replay=3, lr=0.1, device="cpu")
    learner.observe(torch.eye(8), [0, 1] * 4)
    still = learner.method.but(storage=lambda *_: None)
    learner.memory.columns["logits"] += 5  # so that there is a distance
    found = []
    for _ in range(steps):
        before = learner.network.head.weight.detach().clone()
        still.step(learner, Batch(torch.zeros(2, 8), torch.tensor([0, 1])))
        columns = (learner.network.head.weight.detach() != before).any(0)
        found.append(set(columns.nonzero().flatten().tolist()))
    return found


def test_one_draw_is_halved():
    distances, classified = moved_by("derpp(a=1, b=0)", 20), moved_by("derpp(a=0, b=1)", 20)
    for first, second in zip(distances, classified, strict=True):
        assert len(first) == len(second) == 3
        assert not first & second
    assert set.union(*distances) == set.union(*classified) == set(range(8))
    assert moved_by("derpp(a=1, b=1)", 1)[0] == distances[0] | classified[0]


def shared(layers, current, replayed, stored, a, b, alpha=None):
    """One draw for both terms."""
    found = derpp.derpp(layers, current, replayed, replayed, stored, a, b, alpha)
    return found | {"replayed": found["first"] + found["second"]}


@pytest.mark.parametrize(("method", "alpha"), [("derpp", None), ("derpp+uer(alpha=0.3)", 0.3)])
def test_a_shared_draw_is_compared_and_classified(method, alpha):
    name = method.replace("derpp", "derpp(b=1.0, shared=True)")
    drawn = torch.Generator().manual_seed(0)
    learner = Learner(MLP((DIM,), hidden=0), name, memory=6, replay=3, lr=0.1, device="cpu")
    learner.observe(torch.randn(6, DIM, generator=drawn), [0, 1, 2] * 2)
    learner.memory.columns["logits"] += 5
    still = learner.method.but(storage=lambda *_: None)
    replay = learner.method.retrieval(learner, None)
    assert len(replay) == 3
    head, x = learner.network.head, torch.randn(3, DIM, generator=drawn)
    layers = {"head": (head.weight.tolist(), head.bias.tolist())}
    pairs = [list(zip(h.tolist(), y, strict=True)) for h, y in ((x, [2, 0, 1]), (replay.x, replay.y.tolist()))]
    expected = shared(layers, *pairs, replay.extra["logits"].tolist(), 0.1, 1.0, alpha)
    before = head.weight.detach().clone()
    still.but(retrieval=lambda *_: replay).step(learner, Batch(x, torch.tensor([2, 0, 1])))
    assert np.allclose((before - head.weight.detach()) / 0.1, expected["head.W"], rtol=0, atol=1e-4)
    halved = shared(layers, *pairs, replay.extra["logits"].tolist(), 0.1, 0.5, alpha)
    assert not np.allclose((before - head.weight.detach()) / 0.1, halved["head.W"], rtol=0, atol=1e-4)


def test_a_shared_draw_costs_no_more_than_er(learner, images):
    made, counts = learner("derpp(shared=True)", memory=10), []
    (x, y), (later, labels) = images(2)
    made.observe(x, y)
    made.network.trunk.register_forward_hook(lambda _, given, __: counts.append(len(given[0])))
    made.observe(later, labels)
    assert counts == [20]


def test_shared_is_validated():
    with pytest.raises(errors.InputError, match="The 'shared' parameter of derpp must be True or False"):
        resolve("derpp(shared=1)")


def test_a_memory_of_one_sample_is_compared_only():
    learner = Learner(MLP((2,), hidden=0), "derpp(a=1, b=1)", memory=1, device="cpu")
    learner.observe(torch.eye(2), [0, 1])
    back = learner.method.retrieval(learner, None)
    assert len(back) == 1
    replaying = learner.method.objective(learner, back, back).replaying
    z = learner.network.logits(back.inputs)
    assert replaying.item() == pytest.approx((z - back.extra["logits"]).square().mean().item())


def test_without_extra_terms_it_is_the_stream_alone():
    assert compared("derpp(a=0, b=0)", partial(derpp.derpp, a=0, b=0))
    layers = {"head": ([[1.0, 2.0], [0.5, -1.0]], [0.0, 0.1])}
    batch = [([1.0, -1.0], 0)]
    alone = derpp.derpp(layers, batch, batch, batch, [[NAN, 3.0]], a=0, b=0)
    assert alone["loss"] == losses.expectation(layers, batch, "dot", "current")["loss"]


@pytest.mark.parametrize("field", ["a", "b"])
@pytest.mark.parametrize("value", ["-0.1", "'much'", "True"])
def test_weights_are_validated(field, value):
    with pytest.raises(errors.InputError, match=f"'{field}' parameter of derpp must be a number of at least 0"):
        resolve(f"derpp({field}={value})")


@pytest.mark.parametrize("method", ["derpp", "derpp(shared=True)"])
def test_a_second_batch_is_replayed_without_logits(method):
    learner = Learner(MLP((4,)), method, memory=10, device="cpu")
    x = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(0))
    learner.observe(x[0], [0, 1, 2], second=(x[1], [2, 1, 0]))
    assert learner.steps == 1
