"""Gradients of batches and of single samples, and virtual steps on a copy of the network."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from core.made import X, Y, small
from evenhand import Batch
from evenhand.core.batch import unit
from evenhand.core.gradients import batch_gradient, sample_gradients, virtual_step
from evenhand.core.scoring import Mix

VIRTUAL = ["mir(candidates=15)", "gmed", "er_dvc(candidates=15)", "mir(candidates=15)+uer", "gmed+uer"]


def snapshot(network):
    """Weights, buffers, modes and gradients, to compare to the bit."""
    return (
        {name: tensor.clone() for name, tensor in network.state_dict().items()},
        [module.training for module in network.modules()],
        [parameter.grad is None for parameter in network.parameters()],
    )


def equal(one, other):
    tensors, *rest = one
    others, *others_rest = other
    return rest == others_rest and all(torch.equal(tensors[name], others[name]) for name in tensors | others)


def viewed(made, images, seed=9):
    """A batch of the classes that the learner knows, with its raw view and another one."""
    [(x, y)] = images(1, classes=len(made.labels), seed=seed)
    raw = unit(x)
    return Batch(x, torch.tensor(y), views=torch.cat([raw, raw.flip(3) * 0.9]))


@pytest.mark.parametrize("passes", ["joint", "separate"])
@pytest.mark.parametrize("method", VIRTUAL)
def test_a_retrieval_leaves_the_network_untouched(method, passes, train, images):
    made = train(method, batches=3, passes=passes, replay=5)
    names = list(made.network.state_dict())
    assert any("num_batches_tracked" in name for name in names)
    assert any("running_var" in name for name in names)
    live, before, batch = made.network, snapshot(made.network), viewed(made, images)
    assert len(made.method.retrieval(made, batch)) == 5
    assert made.network is live
    assert equal(snapshot(live), before)


@pytest.mark.parametrize("method", VIRTUAL)
def test_the_trial_itself_is_moved(method, train, images):
    """Otherwise the test above would show nothing: weights, statistics and their counts all change in the copy."""
    made = train(method, batches=3)
    live = snapshot(made.network)[0]
    with made.scratch_copy() as network:
        virtual_step(made, viewed(made, images))
        moved = snapshot(network)[0]
        assert network.training
    for name in ("trunk.conv1.weight", "head.weight", "trunk.bn1.running_mean", "trunk.bn2.num_batches_tracked"):
        assert not torch.equal(moved[name], live[name])


@pytest.mark.parametrize("passes", ["joint", "separate"])
@pytest.mark.parametrize(("method", "form"), [("mir", "dot"), ("gmed", "dot"), ("mir+uer", "cos"), ("gmed+uer", "cos")])
def test_a_virtual_step_is_one_step_of_sgd_on_the_views(method, form, passes, train, images):
    made = train(method, batches=3, passes=passes, lr=0.2)
    batch = viewed(made, images)
    twin = copy.deepcopy(made.network).train()
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.2)
    loss = F.cross_entropy(twin.head(twin.trunk(batch.views), form), torch.cat([batch.y, batch.y]))
    loss.backward()
    optimizer.step()
    with made.scratch_copy() as network:
        virtual_step(made, batch)
        moved = dict(network.named_parameters())
        for name, parameter in twin.named_parameters():
            assert torch.allclose(moved[name], parameter, rtol=0, atol=1e-7), name
        raw = copy.deepcopy(made.network)
    with made.scratch_copy() as network:
        virtual_step(made, Batch(batch.x, batch.y))
        assert not torch.allclose(raw.head.weight, network.head.weight, rtol=0, atol=1e-5)


def test_two_trials_start_alike(train, images):
    made = train("mir", batches=3)
    batch, ends = viewed(made, images), []
    for _ in range(2):
        with made.scratch_copy() as network:
            virtual_step(made, batch)
            ends.append(snapshot(network))
    assert equal(*ends)


def test_a_trial_follows_a_head_that_grew(train, images):
    made = train("mir", batches=3)
    with made.scratch_copy() as network:
        assert network.rows == 4
    [(x, _)] = images(1)
    made.observe(x, list(range(10)))
    with made.scratch_copy() as network:
        assert network.rows == 10
        assert equal(snapshot(network)[:1], snapshot(made.network)[:1])


def test_a_trial_ends_when_something_fails(train, images):
    made = train("mir", batches=3)
    live, before = made.network, snapshot(made.network)

    def fail():
        with made.scratch_copy() as network:
            virtual_step(made, viewed(made, images))
            assert made.network is network is not live
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert made.network is live
    assert equal(snapshot(live), before)


@pytest.mark.parametrize("method", VIRTUAL[:3])
def test_an_observation_that_fails_in_its_trial_leaves_no_trace(method, train, images, monkeypatch):
    made = train(method, batches=3)
    live, before = made.network, snapshot(made.network)
    [(x, y)] = images(1)

    def fail(*_):
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(type(made.method.objective), "__call__", fail)
        with pytest.raises(ZeroDivisionError):
            made.observe(x, y)
    assert made.network is live
    assert equal(snapshot(live), before)
    made.observe(x, y)
    assert not equal(snapshot(live), before)


MIXES = [Mix(dot=1), Mix(cos=1), Mix(dot=0.3, cos=0.7)]


@pytest.mark.parametrize(
    "options", [{}, {"neck": True}, {"neck": True, "couple": "both"}, {"neck": True, "couple": "neck"}]
)
@pytest.mark.parametrize("mix", MIXES)
def test_the_rows_are_the_gradients_of_single_samples(mix, options, train, images):
    couple = options.get("couple", "head")
    made = train(f"uer(couple='{couple}')", batches=3, neck=options.get("neck", False))
    batch = viewed(made, images)
    before = snapshot(made.network)
    rows = sample_gradients(made, batch, mix)
    whole = batch_gradient(made, batch, mix)
    twin = copy.deepcopy(made.network).eval()
    parameters = list(twin.parameters())
    assert rows.shape == (10, sum(parameter.numel() for parameter in parameters))
    for i in range(10):
        logits = dict(zip(("dot", "cos"), twin(unit(batch.x[i : i + 1]), ("dot", "cos"), couple), strict=True))
        loss = sum(weight * F.cross_entropy(logits[form], batch.y[i : i + 1]) for form, weight in mix)
        expected = torch.autograd.grad(loss, parameters, materialize_grads=True, allow_unused=True)
        flat = torch.cat([gradient.flatten() for gradient in expected])
        assert torch.allclose(rows[i], flat, rtol=1e-4, atol=1e-5)
        assert not torch.allclose(rows[i], rows[i - 1], rtol=1e-4, atol=1e-5)
    assert torch.allclose(rows.mean(0), whole, rtol=1e-4, atol=1e-5)
    assert whole.norm() > 1e-3
    assert equal(snapshot(made.network), before)


def test_single_gradients_use_running_statistics(train, images):
    """In training mode the gradient of one sample would depend on the others."""
    made = train("gss", batches=3)
    batch = viewed(made, images)
    rows = sample_gradients(made, batch, Mix(dot=1))
    alone = torch.cat([sample_gradients(made, batch[[i]], Mix(dot=1)) for i in range(10)])
    assert torch.allclose(rows, alone, rtol=1e-4, atol=1e-6)


def test_further_modules_have_no_gradient_here(train, images):
    made = train("er_dvc", batches=2)
    batch = viewed(made, images)
    extra = sum(parameter.numel() for parameter in made.network.extra.parameters())
    total = sum(parameter.numel() for parameter in made.network.parameters())
    assert extra > 0
    assert sample_gradients(made, batch, Mix(dot=1)).shape == (10, total - extra)
    assert batch_gradient(made, batch, Mix(dot=1)).shape == (total - extra,)


@pytest.mark.parametrize("method", ["mir(candidates=15)", "gmed", "gss", "aser", "mir(candidates=15)+uer", "gss+uer"])
def test_labels_may_be_anything_in_any_order(method, learner, images, same):
    """Rows of the head are given by arrival: renaming the labels changes no bit, and predictions are renamed."""
    names = {0: "z", 1: 7, 2: "a", 3: -2}
    plain, renamed = learner(method, replay=5), learner(method, replay=5)
    for x, y in images(5):
        plain.observe(x, y)
        renamed.observe(x, [names[label] for label in y])
    [(x, _)] = images(1, seed=1)
    assert renamed.labels == [names[label] for label in plain.labels]
    assert plain.labels != sorted(plain.labels)
    assert renamed.predict(x) == [names[label] for label in plain.predict(x)]
    renamed.labels = plain.labels
    assert same(plain, renamed)


def test_the_trial_has_the_learning_rates_of_the_coming_step(learner, images):
    """The schedule counts, and so does each group of the optimizer."""

    def grouped(parameters):
        return torch.optim.SGD([{"params": parameters[:2], "lr": 0.0}, {"params": parameters[2:], "lr": 0.1}], lr=0.1)

    resting, moving = learner("mir", schedule="linear(steps=2)"), learner("mir", optimizer=grouped)
    for made, moved in ((resting, [False, False]), (moving, [False, True])):
        for x, y in images(3):
            made.observe(x, y)
        batch = viewed(made, images)
        before = [parameter.clone() for parameter in made.network.parameters()]
        with made.scratch_copy() as network:
            virtual_step(made, batch)
            changed = [not torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True)]
        assert [any(changed[:2]), any(changed[2:])] == moved


def test_the_trial_is_clipped_as_the_coming_step(learner, images):
    moved = {}
    for clip in (None, 0.01):
        made = learner("mir", lr=0.5, clip=clip)
        [(x, y)] = images(1)
        made.observe(x, y)
        batch = viewed(made, images)
        before = [parameter.clone() for parameter in made.network.parameters()]
        with made.scratch_copy() as network:
            virtual_step(made, batch)
            gaps = [(a - b).detach().norm() ** 2 for a, b in zip(before, network.parameters(), strict=True)]
        moved[clip] = float(sum(gaps) ** 0.5)
    assert moved[None] > 0.1
    assert moved[0.01] == pytest.approx(0.5 * 0.01, rel=1e-3)


class Recurrent(nn.Module):
    """A GRU, which vmap cannot batch."""

    def __init__(self):
        super().__init__()
        self.gru, self.classify = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, x):
        return self.classify(self.gru(x)[0][:, -1])


def test_gss_takes_the_gradients_of_a_gru_one_by_one():
    learner = small("gss", Recurrent(), lr=0.01)
    x = torch.rand(6, 5, 3, generator=torch.Generator().manual_seed(0))
    for _ in range(3):
        learner.observe(x, Y)
    batch, mix = Batch(x, torch.tensor(Y)), Mix(dot=0.5, cos=0.5)
    found = sample_gradients(learner, batch, mix)
    assert torch.equal(found[2], batch_gradient(learner, batch[[2]], mix))
    plain = small("gss", lr=0.01)
    plain.observe(X, Y)
    batch = Batch(X, torch.tensor(Y))
    slow = torch.stack([batch_gradient(plain, batch[[row]], mix) for row in range(6)])
    assert torch.allclose(sample_gradients(plain, batch, mix), slow, atol=1e-6)
