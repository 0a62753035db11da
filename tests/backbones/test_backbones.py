import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from evenhand import Learner, Network
from evenhand.backbones import BACKBONES, MLP, ReducedResNet18, SmallCNN, build, fold, rebuild
from evenhand.backbones.reduced_resnet18 import Block
from evenhand.errors import InputError


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("shape", "dim", "classes", "total"),
    [
        ((3, 32, 32), 160, 10, 1_094_750),
        ((3, 32, 32), 160, 100, 1_109_240),
        ((3, 84, 84), 640, 100, 1_157_240),
    ],
)
def test_reduced_resnet18_has_the_parameters_of_the_paper(shape, dim, classes, total):
    network = Network.of(ReducedResNet18(shape))
    assert parameters(network) == 1_093_140
    network.grow(classes)
    assert parameters(network) == total
    assert network.trunk.dim == dim


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("side", [8, 9, 28, 32, 84])
def test_reduced_resnet18_features_are_as_long_as_dim(channels, side):
    trunk = ReducedResNet18((channels, side, side))
    h = trunk(torch.rand(2, channels, side, side))
    assert h.shape == (2, trunk.dim)
    assert (h >= 0).all()


def test_reduced_resnet18_of_width_64_is_the_full_one():
    """11,173,962 parameters with ten classes, as the CIFAR variant of ResNet18 has."""
    network = Network.of(ReducedResNet18((3, 32, 32), width=64))
    network.grow(10)
    assert parameters(network) == 11_173_962
    assert network.trunk.dim == 512


def test_reduced_resnet18_halves_the_image_in_three_stages():
    trunk = ReducedResNet18((3, 32, 32))
    h = torch.relu(trunk.bn(trunk.conv(torch.rand(2, 3, 32, 32))))
    shapes = [tuple(h.shape[1:])]
    for block in trunk.blocks:
        h = block(h)
        shapes.append(tuple(h.shape[1:]))
    assert shapes == [(20, 32, 32)] * 3 + [(40, 16, 16)] * 2 + [(80, 8, 8)] * 2 + [(160, 4, 4)] * 2


def test_shortcuts_are_convolutions_only_where_the_shape_changes():
    trunk = ReducedResNet18((3, 32, 32))
    plain = [isinstance(block.shortcut, nn.Identity) for block in trunk.blocks]
    assert plain == [True, True, False, True, False, True, False, True]


def test_a_block_adds_its_shortcut():
    block = ReducedResNet18((3, 8, 8), width=4).blocks[0].eval()
    nn.init.zeros_(block.bn2.weight)
    x = torch.rand(2, 4, 8, 8)
    assert torch.equal(block(x), x)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 28, 28), (3, 32, 20)])
def test_small_cnn_features_are_as_long_as_dim(shape):
    trunk = SmallCNN(shape, width=4)
    assert trunk(torch.rand(2, *shape)).shape == (2, trunk.dim)


def test_mlp_flattens_and_hides_or_passes_through():
    x = torch.rand(3, 1, 4, 5)
    assert MLP((1, 4, 5), hidden=7)(x).shape == (3, 7)
    assert (MLP((1, 4, 5))(-x) >= 0).all()
    through = MLP((1, 4, 5), hidden=0)
    assert torch.equal(through(x), x.flatten(1))
    assert (through.dim, parameters(through)) == (20, 0)


@pytest.mark.parametrize(("name", "option"), [("reduced_resnet18", "width"), ("small_cnn", "width"), ("mlp", "hidden")])
def test_a_recipe_builds_the_same_backbone(name, option):
    made = build(name, (3, 16, 16), {option: 6})
    again = rebuild(made.recipe)
    assert type(again) is BACKBONES[name]
    assert again.recipe == made.recipe
    assert [p.shape for p in again.parameters()] == [p.shape for p in made.parameters()]


@pytest.mark.parametrize(
    ("name", "shape", "options", "sentence"),
    [
        ("resnet18", (3, 32, 32), {}, r"no backbone called 'resnet18'. Did you mean reduced_resnet18\?"),
        ("mlp", (4,), {"hiden": 3}, r"no parameter of mlp called 'hiden'. Did you mean hidden\?"),
        ("mlp", (4,), {"hidden": -1}, r"'hidden' parameter of mlp must be a whole number of at least 0\. Got -1"),
        ("small_cnn", (3, 8, 8), {"width": 0}, r"'width' of small_cnn must be a whole number of at least 1\. Got 0"),
        ("small_cnn", (12,), {}, r"must be images \(c, h, w\) of at least 8x8\. Got \(12,\)"),
        ("reduced_resnet18", (3, 7, 32), {}, r"must be images \(c, h, w\) of at least 8x8\. Got \(3, 7, 32\)"),
        ("reduced_resnet18", (3, 8, 8), {"width": 2.0}, r"'width' of reduced_resnet18 must be a whole number"),
        *(
            ("mlp", (4,), {"hidden": hidden}, rf"The backbone mlp\(hidden={hidden}\) is too large for this machine")
            for hidden in (10**13, 10**18, 10**30)
        ),
    ],
)
def test_a_backbone_that_cannot_be_built(name, shape, options, sentence):
    with pytest.raises(InputError, match=sentence):
        build(name, shape, options)


@pytest.mark.parametrize("trunk", [ReducedResNet18((3, 16, 16), width=4), SmallCNN((3, 16, 16), width=4)])
def test_folding_leaves_no_normalisation_and_the_same_features(trunk):
    drawn = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for module in trunk.modules():
            if isinstance(module, nn.BatchNorm2d):  # as after some training, not as at the start
                for tensor in (module.weight, module.bias, module.running_mean):
                    tensor.copy_(torch.randn(tensor.shape, generator=drawn))
                module.running_var.copy_(torch.rand(module.running_var.shape, generator=drawn) + 0.1)
        x = torch.rand(6, 3, 16, 16, generator=drawn)
        plain = trunk.eval()(x)
        folded = fold(copy.deepcopy(trunk))
        assert torch.allclose(folded(x), plain, atol=1e-4 * plain.abs().max())
        assert not torch.allclose(plain, torch.zeros(()))
    assert not [module for module in folded.modules() if isinstance(module, nn.BatchNorm2d)]
    assert [module for module in trunk.modules() if isinstance(module, nn.BatchNorm2d)]


def test_folding_touches_only_pairs_that_certainly_follow_each_other():
    class Strange(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
            self.pair = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4))

    kinds = [nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.BatchNorm2d]
    strange = Strange().eval()
    folded = fold(nn.Sequential(nn.Sequential(strange.pair), copy.deepcopy(strange)))
    assert [type(module) for module in folded[0][0]] == [nn.Conv2d, nn.Identity, nn.ReLU, nn.BatchNorm2d]
    assert isinstance(folded[1].bn1, nn.BatchNorm2d)
    assert [type(module) for module in folded[1].pair] == kinds  # it may call them one by one


def test_a_narrow_shortcut_computes_what_a_strided_convolution_does():
    narrow, wide = Block(4, 8, 2).shortcut, Block(8, 16, 2).shortcut
    x = torch.rand(3, 4, 9, 9)
    assert torch.equal(narrow[:-1](x), F.conv2d(x, narrow[-2].weight, stride=2))
    assert [type(layer) for layer in wide] == [nn.Conv2d, nn.BatchNorm2d]


def test_the_shape_of_a_sample_may_hold_numbers_of_numpy(tmp_path):
    learner = Learner(MLP((np.prod((2, 3)),)), memory=4, device="cpu")
    learner.observe(torch.rand(4, 6), [0, 1, 0, 1])
    learner.save(tmp_path / "state")
    assert Learner.load(tmp_path / "state", device="cpu").network.trunk.recipe["shape"] == [6]
    for shape in (6, (3, 8.5, 8)):
        with pytest.raises(InputError, match=r"be whole numbers, e\.g\. \(3, 32, 32\)"):
            MLP(shape)
    with pytest.raises(InputError, match="The 'gamma' of a network must be"):
        Network.of(MLP((4,)), gamma=np.float32(8))
