"""Averaged weights: the recursion, growth, frozen layers, buffers and extra modules."""

import numpy as np
import pytest
import torch
from torch import nn

from core.made import X, Y, small
from evenhand import Learner, Network, errors, resolve
from evenhand.methods.ema import Averaged

EMA = Averaged(0.998, by_row=True)


def plain(decay):
    return f"ema(decay={decay}, by_row=False)"


def tensors(network):
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}


def transcribed(history, decay):
    """The average of a history of networks, one number at a time, in float64."""
    average = {}
    for step, network in enumerate(history):
        d = min(decay, (1 + step) / (10 + step)) if step else 0.0
        for name, live in network.items():
            if live.is_floating_point():
                found = live.double().numpy().copy()
                old = average.get(name, found)
                for place in np.ndindex(old.shape):  # a new row starts as a copy
                    found[place] = d * old[place] + (1 - d) * found[place]
                average[name] = found
    return average


@pytest.mark.parametrize("decay", [0.5, 0.99, 1.0])
def test_the_average_follows_its_recursion(learner, images, decay):
    made, history = learner("uer", tests=f"{plain(decay)}, {plain(0.3)}"), []
    for x, y in images(14, classes=3):
        made.observe(x, y)
        history.append(tensors(made.network))
    for part in (Averaged(decay), Averaged(0.3)):
        for name, expected in transcribed(history, part.decay).items():
            np.testing.assert_allclose(part(made).state_dict()[name].numpy(), expected, rtol=2e-5, atol=2e-6)


def by_row(history, decay):
    """The head's average of a history, each row by its own age; rows start as they were before their first step."""
    average, arrived = np.empty((0, 0)), []
    for step, (started, network) in enumerate(history):
        live = network.double().numpy()
        for row in range(len(live)):
            if row >= len(arrived):
                arrived.append(step)
                old = started[row].double().numpy() if step else live[row]
                average = np.vstack([average, old]) if average.size else old[None]
            age = step - arrived[row]
            d = min(decay, (1 + age) / (10 + age))
            average[row] = d * average[row] + (1 - d) * live[row]
    return average


@pytest.mark.parametrize("decay", [0.3, 0.998])
def test_rows_are_warmed_up_by_their_own_age(learner, images, decay, tmp_path):
    way, alike = Averaged(decay, by_row=True), Averaged(decay)
    made, history = learner("uer", tests=f"{way.way}, {plain(decay)}"), []
    grow = made.network.grow
    started = torch.empty(0)

    def watched(*arguments):
        nonlocal started
        grow(*arguments)
        started = made.network.head.weight.detach().clone()

    made.network.grow = watched
    for number, (x, y) in enumerate(images(14, classes=6)):
        made.observe(x, [label % (2 + number // 3) for label in y])
        history.append((started, made.network.head.weight.detach().clone()))
    assert len(made.labels) == 6
    expected = by_row(history, decay)
    np.testing.assert_allclose(way(made).head.weight.numpy(), expected, rtol=2e-5, atol=2e-6)
    assert not np.allclose(way(made).head.weight.numpy(), by_row(history, 0.2), rtol=1e-3)
    assert torch.equal(way(made).trunk.conv1.weight, alike(made).trunk.conv1.weight)
    del made.network.grow
    made.save(tmp_path / "state")
    loaded = Learner.load(tmp_path / "state", device="cpu")
    for each in (made, loaded):
        each.observe(x, y)
    assert torch.equal(way(made).head.weight, way(loaded).head.weight)
    assert torch.equal(way(made).head.bias, way(loaded).head.bias)


def test_a_row_is_as_old_as_its_class_even_if_the_head_had_it_before(learner, images):
    grown, whole = (learner("uer+ema", rows=rows) for rows in (0, 4))
    for made in (grown, whole):
        for number, (x, y) in enumerate(images(9, classes=4)):
            made.observe(x, [label % (2 + number // 3) for label in y])
    arrived = [made.kept[f"{EMA.name}.arrived"] for made in (grown, whole)]
    assert arrived[0].tolist() == arrived[1].tolist() == [0, 0, 3, 6]


def test_a_wrong_recursion_would_be_noticed(learner, images):
    made, history = learner(f"uer+{plain(0.3)}"), []
    for x, y in images(8, classes=3):
        made.observe(x, y)
        history.append(tensors(made.network))
    weight = Averaged(0.3)(made).head.weight.numpy()
    assert np.allclose(weight, transcribed(history, 0.3)["head.weight"], rtol=1e-3)
    assert not np.allclose(weight, transcribed(history, 0.2)["head.weight"], rtol=1e-3)
    assert not np.allclose(weight, transcribed(history, 1.0)["head.weight"], rtol=1e-3)  # the warm-up alone


@pytest.mark.parametrize("method", ["er", "er_dvc", "obc(apart=5)", "scr"])
def test_new_rows_start_as_copies_of_the_live_ones(learner, images, method):
    made = learner(f"{method}+ema")
    for x, _ in images(4):
        made.observe(x, [0] * len(x))
    before = tensors(EMA(made))
    made.grow(2)
    after, live = EMA(made).state_dict(), made.network.state_dict()
    assert after.keys() == live.keys()
    for name, tensor in after.items():
        old = tuple(map(slice, before[name].shape))
        assert tensor.shape == live[name].shape
        assert torch.equal(tensor[old], before[name])
        rest = torch.ones_like(tensor, dtype=torch.bool)
        rest[old] = False
        assert torch.equal(tensor[rest], live[name][rest])
    assert len(EMA(made).head.bias) == 3


def test_the_head_may_grow_twice_between_two_steps():
    """A tensor may get the address of one that is gone, so the same is done often."""
    x = torch.rand(2, 4, generator=torch.Generator().manual_seed(0))
    for _ in range(5):
        made = Learner(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), "uer+ema", memory=10, device="cpu")
        made.observe(x, [0, 1])
        for new in range(2, 40, 4):
            made.observe(x, [new, 0], second=(x, [new + 1, 0]))
            made.remember(x, [new + 2, 0])
            made.observe(x, [new + 3, 0])
            assert EMA(made).rows == len(made.labels)
            assert not torch.equal(EMA(made).head.weight[-1], made.network.head.weight[-1])


def test_before_the_first_step_the_live_weights_answer(learner):
    made = learner("uer+ema")
    assert EMA(made) is made.network


def test_frozen_layers_are_not_moved_and_buffers_are():
    trunk = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    trunk[1].requires_grad_(False)
    made = Learner(trunk, "uer+ema", memory=10, device="cpu")
    drawn = torch.Generator().manual_seed(0)
    for _ in range(6):
        made.observe(torch.rand(5, 16, generator=drawn), [0, 1, 0, 1, 2])
    average = EMA(made)
    assert torch.equal(average.trunk[1].weight, made.network.trunk[1].weight)
    assert not torch.equal(average.trunk[2].running_mean, made.network.trunk[2].running_mean)
    assert not average.training
    assert not any(parameter.requires_grad for parameter in average.parameters())


def test_er_wa_aligns_the_averaged_weights_too(train):
    made = train("er_wa+ema")
    made.kept["er_wa.stages"] = [2]
    made.boundary()
    for network in made.ways.networks(made):
        norms = network.head.weight.norm(dim=1)
        assert norms[:2].mean().item() == pytest.approx(norms[2:].mean().item(), rel=1e-5)


def test_averages_are_saved_and_restored(train, tmp_path, images):
    made = train("uer", tests="ema, ema(decay=0.9)+ncm")
    made.save(tmp_path / "state.safetensors")
    loaded = Learner.load(tmp_path / "state.safetensors", device="cpu")
    x = images(1)[0][0]
    for test in ("", "ema", "ema(decay=0.9)+ncm"):
        assert torch.equal(made.scores(x, test=test), loaded.scores(x, test=test))
    assert not torch.equal(made.scores(x), made.scores(x, test="ema"))


@pytest.mark.parametrize("decay", [-0.1, 1.1, float("nan")])
def test_a_decay_is_a_fraction(decay):
    with pytest.raises(errors.InputError, match="The 'decay' parameter of ema must be a number in"):
        Averaged(decay)
    with pytest.raises(errors.InputError, match="sets the slot 'weights', which is already set"):
        resolve("uer+ema+ema(decay=0.5)")


class Counting(nn.Module):
    """Counts the samples, in an integer, and keeps the first column of them all."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("queue", torch.zeros(0))

    def forward(self, x):
        if self.training:
            self.count += len(x)
            self.queue = torch.cat([self.queue, x.detach()[:, 0]])
        return x


def test_the_average_follows_counts_queues_and_replaced_data():
    model = nn.Sequential(Counting(), nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    learner = Learner(model, "er+ema(decay=0.0)", memory=8, replay=2, device="cpu")
    for _ in range(3):
        learner.observe(torch.rand(4, 3), [0, 1, 2, 1])
    model[1].weight.data = torch.ones(8, 3)
    learner.changed()
    learner.observe(torch.rand(4, 3), [0, 1, 2, 1])
    average = learner.method.weights(learner).trunk
    assert average[0].count == model[0].count == 4 + 3 * 6
    assert torch.equal(average[0].queue, model[0].queue)
    assert torch.equal(average[1].weight, model[1].weight)


def test_an_average_follows_buffers_that_are_assigned_anew():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(4, 2)
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            if self.training:
                self.count = self.count + 1
            return self.last(x)

    learner = small("uer+ema", model=Counting())
    for _ in range(30):
        learner.observe(X, Y)
    average = learner.method.weights(learner)
    assert 15 < average.trunk.count.item() < 30


class Fourier(nn.Module):
    """Complex parameters."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.filter, self.last = nn.Parameter(torch.randn(3, dtype=torch.cfloat)), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(torch.fft.irfft(torch.fft.rfft(x) * self.filter, n=4))


def test_complex_parameters_are_averaged():
    learner = small("er+ema(decay=0.5, by_row=False)", Fourier())
    for _ in range(20):
        learner.observe(X, Y)
    [average] = [value for value in learner.kept.values() if isinstance(value, Network)]
    live = learner.network.trunk.filter
    before, now = (average.trunk.filter - live).abs().max(), live.abs().max()
    assert 0 < before < 0.01 * now
