import math
from functools import partial

import numpy as np
import pytest
import torch

from evenhand import Batch, Learner, errors, resolve
from evenhand.backbones import MLP
from evenhand.methods.er_dvc import QNet, agreement
from reference import er_dvc

DIM, CLASSES = 3, 4
CURRENT, REPLAYED = [3, 1, 3], [0, 2]


def slopes(f, values, places):
    """The differences of f at some places of an array."""
    found = []
    for place in places:
        ends = []
        for step in (1e-6, -1e-6):
            moved = values.copy()
            moved[place] += step
            ends.append(f(moved.tolist()))
        found.append((ends[0] - ends[1]) / 2e-6)
    return found


def problem(method, double=True):
    """A learner, in float64, with a batch and a replay of two views each."""
    drawn = torch.Generator().manual_seed(5)
    learner = Learner(MLP((DIM,), hidden=0), method, device="cpu", replay=3, lr=0.5)
    learner.grow(CLASSES)
    if double:
        learner.network.double()
    kind = learner.network.head.weight.dtype
    learner.network.head.weight.data = torch.randn(CLASSES, DIM, generator=drawn, dtype=kind)
    batches = []
    for y in (CURRENT, REPLAYED):
        h = torch.randn(2 * len(y), DIM, generator=drawn, dtype=kind).requires_grad_()
        batches.append(Batch(h[: len(y)].detach(), torch.tensor(y), views=h))
    return learner, *batches


def parts(learner, batch, replay):
    """Everything the loss depends on, by name."""
    head, q = learner.network.head, learner.network.extra["q"]
    return {
        "current": batch.views,
        "replayed": replay.views,
        "W": head.weight,
        "b": head.bias,
        "into": q.into,
        "into_bias": q.into_bias,
        "out": q.out,
        "out_bias": q.out_bias,
    }


def q_of(values):
    """The layers of Q as it would read one concatenated vector."""
    into = [
        [*first, *second] for first, second in zip(*(zip(*half, strict=True) for half in values["into"]), strict=True)
    ]
    return (into, values["into_bias"]), (values["out"], values["out_bias"])


def transcribed(values, **options):
    """The loss of a dict of lists."""
    halves = [
        (values[name][: len(y)], values[name][len(y) :], y)
        for name, y in (("current", CURRENT), ("replayed", REPLAYED))
    ]
    return er_dvc.er_dvc((values["W"], values["b"]), q_of(values), *halves, **options)


@pytest.mark.parametrize(
    ("method", "reference"),
    [
        ("er_dvc", transcribed),
        ("er_dvc(weight=2)", partial(transcribed, weight=2.0)),
        ("er_dvc+uer(alpha=0.3)", partial(transcribed, alpha=0.3)),
    ],
)
def test_loss_and_gradients(method, reference):
    learner, batch, replay = problem(method)
    leaves = parts(learner, batch, replay)
    values = {name: leaf.tolist() for name, leaf in leaves.items()}
    loss = learner.method.objective(learner, batch, replay).total
    assert loss.item() == pytest.approx(reference(values), rel=1e-10)
    gradients = torch.autograd.grad(loss, list(leaves.values()))
    for (name, leaf), gradient in zip(leaves.items(), gradients, strict=True):
        places = list(np.ndindex(*leaf.shape))[:: 37 if "into" in name or name == "out" else 1]
        expected = slopes(lambda moved, name=name: reference(values | {name: moved}), leaf.detach().numpy(), places)
        assert np.allclose([gradient[place] for place in places], expected, rtol=1e-5, atol=1e-7), name


@pytest.mark.parametrize(
    ("method", "mutant"),
    [
        ("er_dvc", partial(transcribed, weight=2.0)),
        ("er_dvc", partial(transcribed, entropy=-1 / 3)),
        ("er_dvc", partial(transcribed, entropy=1.0)),
        ("er_dvc", partial(transcribed, alpha=0.3)),
        ("er_dvc+uer(alpha=0.3)", partial(transcribed, alpha=0.7)),
    ],
)
def test_a_wrong_equation_is_noticed(method, mutant):
    learner, batch, replay = problem(method)
    values = {name: leaf.tolist() for name, leaf in parts(learner, batch, replay).items()}
    loss = learner.method.objective(learner, batch, replay).total
    assert loss.item() != pytest.approx(mutant(values), rel=1e-4)


def test_terms_by_hand():
    """Both views predict (1/2, 1/2), Q (3/4, 1/4): the distances are 1/4 in the mean."""
    even, skewed = torch.zeros(2, 2), torch.tensor([[math.log(3), 0.0]] * 2)
    entropies = 2 * math.log(2) - (0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    found = agreement(even, even, skewed, weight=4.0).item()
    assert found == pytest.approx(-entropies / 3 + 4 * (0.25 + 0.25), abs=1e-6)


def test_entropy_is_that_of_the_mean_prediction():
    """Two sure but opposite predictions are as spread as two even ones."""
    sure = torch.tensor([[50.0, -50.0], [-50.0, 50.0]])
    assert agreement(sure, sure, sure, weight=4.0).item() == pytest.approx(-math.log(2), abs=1e-6)


def test_a_vanishing_prediction_has_a_finite_gradient():
    z = torch.tensor([[500.0, -500.0]], requires_grad=True)
    [gradient] = torch.autograd.grad(agreement(z, z, z, weight=4.0), [z])
    assert gradient.isfinite().all()


def test_q_grows_and_leaves_its_old_rows_untouched():
    q, drawn = QNet(), torch.Generator().manual_seed(0)
    q.grow(2, drawn)
    old = {name: p.detach().clone() for name, p in q.named_parameters()}
    q.grow(3, drawn)
    assert {name: tuple(p.shape) for name, p in q.named_parameters()} == {
        "into": (2, 5, 128),
        "into_bias": (128,),
        "out": (5, 128),
        "out_bias": (5,),
    }
    assert torch.equal(q.into[:, :2], old["into"])
    assert torch.equal(q.into_bias, old["into_bias"])
    assert torch.equal(q.out[:2], old["out"])
    assert torch.equal(q.out_bias[:2], old["out_bias"])
    for new in (q.into[0, 2:], q.into[1, 2:], q.out[2:], q.out_bias[2:]):
        assert 0 < new.abs().max() <= 1 / math.sqrt(128)
    assert not torch.equal(q.into[0, 2:], q.into[1, 2:])


def test_q_does_not_depend_on_when_it_grew():
    made = []
    for counts in ([4], [1, 1, 2]):
        q, drawn = QNet(), torch.Generator().manual_seed(0)
        for count in counts:
            q.grow(count, drawn)
        made.append(q.state_dict())
    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])


def test_its_head_begins_as_that_of_the_other_methods(learner, images):
    heads = []
    for method, arrivals in (("er", [10]), ("er_dvc", [10]), ("er_dvc", [1, 2, 7])):
        made = learner(method)
        made.optimizer.param_groups[0]["lr"] = 0.0  # the head stays as it was drawn
        for number in arrivals:
            known = len(made.labels)
            made.observe(images(1)[0][0][:number], list(range(known, known + number)))
        heads.append(made.network.head.weight.detach())
    assert torch.equal(heads[0], heads[1])
    assert torch.equal(heads[0], heads[2])


def test_q_grows_with_the_head_and_is_trained(learner, images):
    made = learner("er_dvc")
    (x, y), (more, labels) = images(2, classes=2)
    made.observe(x, y)
    q = made.network.extra["q"]
    assert len(q.out) == 2
    made.observe(more, [label + 2 for label in labels])
    assert len(q.out) == q.into.shape[1] == made.network.rows == 4
    before = [p.detach().clone() for p in q.parameters()]
    made.observe(x, y)
    assert not any(torch.equal(p, b) for p, b in zip(q.parameters(), before, strict=True))


def test_the_most_interfered_come_back():
    """Three of twelve by the reference's score, after a step down the reference's stream loss less before it."""
    learner, batch, _ = problem("er_dvc(candidates=12)", double=False)
    drawn = torch.Generator().manual_seed(1)
    x, y = torch.randn(12, DIM, generator=drawn), torch.randint(CLASSES, (12,), generator=drawn)
    learner.memory.write(torch.arange(12), Batch(x, y))
    learner.views = "none"  # the candidates are vectors, which cannot be augmented when they come back
    values = {name: leaf.tolist() for name, leaf in parts(learner, batch, batch).items()}
    state = {name: tensor.clone() for name, tensor in learner.network.state_dict().items()}

    def stream(W, b):
        halves = values["current"][:3], values["current"][3:], CURRENT
        return er_dvc.batch_loss((W, b), q_of(values), *halves, [("dot", 1)])

    W, b = np.array(values["W"]), np.array(values["b"])
    dW = slopes(lambda moved: stream(moved, values["b"]), W, list(np.ndindex(*W.shape)))
    db = slopes(lambda moved: stream(values["W"], moved), b, list(np.ndindex(*b.shape)))
    stepped = (W - 0.5 * np.reshape(dW, W.shape)).tolist(), (b - 0.5 * np.array(db)).tolist()
    rises = []
    for h, label in zip(x.tolist(), y.tolist(), strict=True):
        before = er_dvc.interference((values["W"], values["b"]), h, label)
        rises.append(er_dvc.interference(stepped, h, label) - before)
    order = np.argsort(rises)[::-1]
    assert rises[order[2]] - rises[order[3]] > 1e-3  # no near tie
    back = learner.method.retrieval(learner, batch)
    assert back.slots.tolist() == order[:3].tolist()
    assert all(torch.equal(tensor, state[name]) for name, tensor in learner.network.state_dict().items())
    alone = [er_dvc.interference(stepped, h, label) for h, label in zip(x.tolist(), y.tolist(), strict=True)]
    assert set(np.argsort(alone)[::-1][:3]) != set(order[:3])  # the difference matters, not the score after


def test_it_makes_two_views_whatever_is_asked_for(learner, images):
    made = learner("er_dvc")
    made.observe(*images(1)[0])
    back = made.method.retrieval(made, None)
    assert back.views.shape == (20, 1, 8, 8)
    assert torch.equal(back.views[:10], back.x / 255)


@pytest.mark.parametrize("value", ["-1", "'much'", "True"])
def test_weight_is_validated(value):
    with pytest.raises(errors.InputError, match="'weight' parameter of er_dvc must be a number of at least 0"):
        resolve(f"er_dvc(weight={value})")


@pytest.mark.parametrize("value", ["0", "1.5", "'all'", "True"])
def test_candidates_are_validated(value):
    with pytest.raises(errors.InputError, match="'candidates' parameter of er_dvc must be a whole number"):
        resolve(f"er_dvc(candidates={value})")


@pytest.mark.parametrize("optimizer", ["sgd(momentum=0.9)", "adam", "rmsprop"])
def test_what_an_optimizer_knows_of_q_grows_with_the_classes(optimizer, learner, images):
    made = learner("er_dvc", optimizer=optimizer, lr=0.01)
    for number, (x, y) in enumerate(images(3, classes=2)):
        made.observe(x, [label + number for label in y])
    known = made.optimizer.state[made.network.extra["q"].into].items()
    before = {key: value.clone() for key, value in known if value.ndim}
    made.grow(2)
    after = made.optimizer.state[made.network.extra["q"].into]
    for key, value in before.items():
        assert value.shape == (2, 4, 128)
        assert torch.equal(after[key][:, :4], value)
        assert torch.allclose(after[key][:, 4:], value.mean() if "sq" in key else torch.tensor(0.0))
