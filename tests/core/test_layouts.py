"""Images with their channels first or last in memory, and modules that forbid the one or the other."""

import copy
import subprocess
import sys

import pytest
import torch
from torch import nn

from core.made import Y, pictures, small
from evenhand import Learner

IMAGES = pictures(6)


class Viewed(nn.Module):
    """Flattens as many tutorials do."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.last = nn.Conv2d(3, 8, 3), nn.Linear(8 * 36, 3)

    def forward(self, x):
        return self.last(torch.relu(self.conv(x)).view(len(x), -1))


class Flattened(nn.Module):
    """Takes pixels in the order of the channels."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.last = nn.Linear(192, 3)

    def forward(self, x):
        return self.last(x.view(x.size(0), -1))


@pytest.mark.parametrize("model", [Viewed, Flattened])
@pytest.mark.parametrize("method", ["uer", "mir+ema", "gss", "ss_il"])
def test_a_view_of_images(model, method, tmp_path, same):
    learner = small(method, model=model())
    for _ in range(2):
        learner.observe(IMAGES, [0, 1, 2] * 2)
    learner.save(tmp_path / "state")
    back = Learner.load(tmp_path / "state", model(), device="cpu")
    for each in (learner, back, copy.deepcopy(back)):
        each.observe(IMAGES, [0, 1, 2] * 2)
        assert same(each, learner)
        assert torch.equal(each.scores(IMAGES), learner.scores(IMAGES))


class Folded(nn.Module):
    """Takes a set of images as many images: only with several samples does that depend on the layout."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.last = nn.Conv2d(1, 4, 3), nn.Linear(12, 3)

    def forward(self, x):
        n, k, h, w = x.shape
        return self.last(torch.relu(self.conv(x.view(n * k, 1, h, w))).mean((2, 3)).view(n, -1))


class Spectral(nn.Module):
    """Filters images by complex weights, whose last dimension must be dense."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.weight, self.last = nn.Parameter(torch.randn(3, 8, 5, 2) / 10), nn.Linear(192, 3)

    def forward(self, x):
        return self.last(torch.fft.irfft2(torch.fft.rfft2(x) * torch.view_as_complex(self.weight), s=(8, 8)).flatten(1))


class Complex(nn.Module):
    """Takes the real and imaginary parts of a spectrum side by side."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.last = nn.Linear(12, 3)

    def forward(self, x):
        return self.last(torch.view_as_complex(x).abs().flatten(1))


@pytest.mark.parametrize(("model", "shape"), [(Folded, (3, 8, 8)), (Spectral, (3, 8, 8)), (Complex, (3, 4, 2))])
def test_modules_that_need_their_own_layout(model, shape, tmp_path, same):
    x = torch.rand(6, *shape, generator=torch.Generator().manual_seed(0))
    module = model()
    before = module(x)
    learner = small(model=module, keep=[0, 1, 2])
    assert torch.allclose(learner.scores(x), before, atol=1e-6)
    learner.observe(x[:1], [0])
    learner.save(tmp_path / "state")
    back = Learner.load(tmp_path / "state", model(), device="cpu")
    for each in (learner, back):
        each.observe(x, [0, 1, 2] * 2)
        assert same(each, learner)


def test_an_augmentation_may_use_views():
    learner = small(model=Viewed(), augment=lambda x: x.view(len(x), -1).flip(1).view(x.shape))
    learner.observe(IMAGES, [0, 1, 2] * 2)
    assert learner.steps == 1


@pytest.mark.parametrize("options", [{"rows": 4}, {"keep": [0, 1, 2]}])
def test_a_copy_from_before_the_first_batch_gets_the_layout_found_then(options):
    learner = Learner(Viewed(), "er", memory=20, device="cpu", **options)
    learner.boundary()
    learner.observe(IMAGES, [0, 1, 2] * 2)
    assert len(learner.predict(IMAGES)) == 6


def test_a_module_takes_images_in_any_layout():
    images = IMAGES.to(memory_format=torch.channels_last)
    learner = small(model=Viewed())
    learner.observe(images, Y)
    assert torch.allclose(learner.module()(images), learner.scores(images), atol=1e-5)


NARROW = """
import torch
from torch import nn
from evenhand import Learner

torch.set_num_threads(1)
for side in (8, 16, 32):
    for channels in (1, 2, 3, 5, 7):
        for after in (2, 6, 8, 16):
            first, narrow = nn.Conv2d(3, channels, 3, padding=1), nn.Conv2d(channels, after, 1, 2, bias=False)
            model = nn.Sequential(first, nn.ReLU(), narrow, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(after, 2))
            learner = Learner(model, memory=20, device="cpu")
            for step in range(3):
                learner.observe(torch.rand(10, 3, side, side), [step % 2] * 10)
            learner.predict(torch.rand(10, 3, side, side))
"""


def test_narrow_strided_convolutions_do_not_corrupt_memory():
    """With the channels last, oneDNN for AVX2 writes beyond its buffers."""
    subprocess.run([sys.executable, "-c", NARROW], check=True)
