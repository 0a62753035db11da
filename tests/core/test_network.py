"""The network: its trunk, head and neck, rows that arrive later, and what methods add."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from core.made import X, small
from evenhand import Learner, Network, losses
from evenhand.backbones import MLP
from evenhand.core.network import DualLinear
from evenhand.errors import InputError


def grown(steps, seed=0, dim=7):
    layer, drawn = DualLinear(dim), torch.Generator().manual_seed(seed)
    for count in steps:
        layer.grow(count, drawn)
    return layer


@given(st.lists(st.integers(0, 5), max_size=6), st.integers(0, 100), st.integers(1, 40))
def test_rows_have_the_same_bits_however_they_arrive(steps, seed, dim):
    by_step, at_once, by_row = (
        grown(steps, seed, dim),
        grown([sum(steps)], seed, dim),
        grown([1] * sum(steps), seed, dim),
    )
    for other in (at_once, by_row):
        assert torch.equal(by_step.weight, other.weight)
        assert torch.equal(by_step.bias, other.bias)


def test_rows_start_as_those_of_a_torch_linear():
    layer = grown([4000], dim=9)
    for values in (layer.weight.detach(), layer.bias.detach()):
        assert values.abs().max() <= 1 / 3
        assert values.abs().max() > 0.99 / 3
        assert abs(values.mean()) < 0.02
        assert math.isclose(values.std(), 1 / 3 / math.sqrt(3), rel_tol=0.05)


def test_growing_leaves_the_old_rows():
    layer = grown([3])
    old = layer.weight.detach().clone()
    layer(torch.rand(4, 7), "dot").sum().backward()
    layer.grow(2, torch.Generator())
    assert layer.weight.shape == (5, 7)
    assert torch.equal(layer.weight[:3], old)
    assert layer.weight.grad is None  # it had the shape of the old rows
    assert layer.bias.grad is None


def test_the_learner_moves_rows_that_came_later():
    learner = Learner(MLP((7,), hidden=0), "er", device="cpu")
    learner.observe(torch.rand(4, 7), [0, 1, 0, 1])
    learner.observe(torch.rand(4, 7), [0, 1, 2, 3])
    before = learner.network.head.weight.detach().clone()
    learner.observe(torch.rand(4, 7), [0, 1, 2, 3])
    assert (learner.network.head.weight != before).all(dim=1).tolist() == [True] * 4


def test_the_two_forms():
    layer, h = grown([5]), torch.rand(3, 7)
    assert torch.equal(layer(h, "dot"), F.linear(h, layer.weight, layer.bias))
    angles = F.cosine_similarity(h.unsqueeze(1), layer.weight.unsqueeze(0), dim=2)
    assert torch.allclose(layer(h, "cos"), 10 * angles, atol=1e-3)
    with torch.no_grad():
        before = layer(h, "cos")
        layer.bias.add_(5)
        assert torch.equal(layer(h, "cos"), before)
        layer.weight.mul_(3)
        assert torch.allclose(layer(4 * h, "cos"), before, atol=1e-3)


def test_the_neck_follows_the_couple():
    network = Network.of(MLP((6,), hidden=0), neck=True)
    network.grow(4, torch.Generator().manual_seed(0))
    h = torch.rand(3, 6)
    neck, head = network.neck, network.head
    for form in ("dot", "cos"):
        assert torch.equal(network.logits(h, form, "head"), head(F.relu(neck(h, "dot")), form))
        assert torch.equal(network.logits(h, form, "neck"), head(F.relu(neck(h, form)), "dot"))
        assert torch.equal(network.logits(h, form, "both"), head(F.relu(neck(h, form)), form))
    assert neck.weight.shape == (6, 6)
    assert neck.bias.shape == (6,)


def test_of_takes_the_place_of_the_last_linear():
    module = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Sequential(nn.Dropout(0.0), nn.Linear(8, 3)))
    x = torch.rand(2, 5)
    expected = F.relu(module[0](x))
    network = Network.of(module)
    assert network.rows == 0
    assert network.head.dim == 8
    assert torch.equal(network.features(x), expected)
    network.grow(4)
    assert network.logits(network.features(x)).shape == (2, 4)
    assert not [name for name, _ in network.named_parameters() if name.startswith("trunk.2")]


def test_of_gives_ones_own_module_a_neck():
    network = Network.of(nn.Sequential(nn.Linear(5, 8), nn.Linear(8, 3)), neck=True)
    assert network.neck.weight.shape == (8, 8)


def test_of_takes_a_trunk_that_is_ours_or_whose_dim_is_told():
    trunk = nn.Sequential(nn.Linear(5, 8), nn.ReLU())
    assert Network.of(trunk, dim=8).head.dim == 8
    assert isinstance(trunk[0], nn.Linear)
    assert Network.of(MLP((5,), hidden=8), neck=True).neck.weight.shape == (8, 8)


def test_a_module_that_has_a_dim_of_its_own_still_gives_its_classifier():
    module = nn.Sequential(nn.Linear(5, 8), nn.Linear(8, 3))
    module.dim = 16
    assert Network.of(module).head.dim == 8


def test_of_a_network_is_that_network():
    network = Network.of(MLP((3,)))
    assert Network.of(network) is network


@pytest.mark.parametrize("module", [nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.Conv2d(1, 1, 1), nn.Sequential()])
def test_of_a_module_without_a_last_linear(module):
    sentence = (
        rf"last layer of {type(module).__name__} must be a Linear, which the head replaces.*Network\.of\(module, dim="
    )
    with pytest.raises(InputError, match=sentence):
        Network.of(module)


def test_the_head_grows_while_someone_holds_a_graph():
    learner = small("er")
    learner.observe(X[:4], [0, 1, 2, 3])
    held = learner.network.logits(learner.network.features(X[:4]))
    learner.observe(X[:4], [0, 1, 2, "new"])
    assert held.shape == (4, 4)
    assert learner.scores(X[:4]).shape == (4, 5)


def test_the_forms_of_a_dual_layer():
    head, y = DualLinear(4, rows=3), torch.tensor([0, 1, 2] * 2)
    with pytest.raises(InputError, match="The form of logits must be dot or cos"):
        head(X, "dott")
    h = torch.randn(2, 5, 4)
    torch.testing.assert_close(head(h, "cos"), head(h.flatten(0, 1), "cos").unflatten(0, (2, 5)))
    with pytest.raises(InputError, match="must be a DualLinear"):
        losses.uer(nn.Linear(4, 3), (X, y))
    assert torch.equal(losses.uer(head, (X, y.int())), losses.uer(head, (X, y)))


@pytest.mark.parametrize("method", ["obc", "scr", "er_dvc"])
def test_the_modules_of_a_method_are_on_the_device_of_the_network(method):
    network = Learner(MLP((4,)), method, device="meta").network
    assert {parameter.device.type for parameter in network.parameters()} == {"meta"}
