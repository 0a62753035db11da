import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenhand import augment
from evenhand.augment import AUGMENTATIONS
from reference import images as slow


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def picture(n=6, channels=3, height=9, width=7, seed=0):
    return torch.rand(n, channels, height, width, generator=generator(seed))


def close(one, other):
    return torch.allclose(one, torch.tensor(other), atol=1e-5)


def column(*values):
    return torch.tensor(values).view(-1, 1, 1, 1)


@pytest.mark.parametrize("channels", [1, 3])
def test_crop_shifts_and_flips_each_sample_by_its_own_draws(channels):
    x, drawn = picture(channels=channels), generator(1)
    shifts = torch.randint(-4, 5, (2, 6, 1), generator=drawn).flatten(1).tolist()
    flips = (torch.rand(6, 1, generator=drawn) < 0.5).flatten().tolist()
    assert len(set(zip(*shifts, flips, strict=True))) > 3
    found = augment.crop(x, generator(1))
    for i, image in enumerate(x.tolist()):
        assert close(found[i], slow.shifted(image, shifts[0][i], shifts[1][i], flips[i]))


def boxes(n, height, width, drawn):
    """The boxes of `resized_crop`, one sample after the other: the first of ten tries that fits, else all."""
    area, ratio = torch.rand(2, n, 10, generator=drawn).tolist()
    place = torch.rand(2, n, 1, generator=drawn).flatten(1).tolist()
    flips = (torch.rand(n, 1, generator=drawn) < 0.5).flatten().tolist()
    for i in range(n):
        box = (height, width)
        for a, r in zip(area[i], ratio[i], strict=True):
            pixels, shape = height * width * (0.2 + 0.8 * a), (4 / 3) ** (2 * r - 1)
            tried = round(math.sqrt(pixels / shape)), round(math.sqrt(pixels * shape))
            if 1 <= tried[0] <= height and 1 <= tried[1] <= width:
                box = tried
                break
        top, left = int(place[0][i] * (height - box[0] + 1)), int(place[1][i] * (width - box[1] + 1))
        yield top, left, *box, flips[i]


@pytest.mark.parametrize(("height", "width"), [(9, 7), (8, 8), (4, 24)])
def test_resized_crop_is_a_box_scaled_by_bilinear_interpolation(height, width):
    x = picture(n=12, channels=2, height=height, width=width)
    found = augment.resized_crop(x, generator(1))
    for i, box in enumerate(boxes(12, height, width, generator(1))):
        assert close(found[i], slow.cut_and_scaled(x[i].tolist(), *box))


def test_a_box_that_never_fits_is_the_whole_image():
    x = picture(n=20, height=1, width=40)
    for found, image in zip(augment.resized_crop(x, generator(1)), x, strict=True):
        assert torch.allclose(found, image, atol=1e-5) or torch.allclose(found, image.flip(2), atol=1e-5)


def test_boxes_cover_the_areas_and_ratios_asked_for():
    found = list(boxes(2000, 64, 64, generator(1)))
    areas = [height * width / 4096 for _, _, height, width, _ in found]
    ratios = [width / height for _, _, height, width, _ in found]
    assert 0.19 < min(areas) < 0.22
    assert 0.95 < max(areas) <= 1
    assert 0.7 < min(ratios) < 0.78
    assert 1.28 < max(ratios) < 1.4


@given(st.integers(0, 1000), st.floats(0.5, 1.5))
def test_brightness_contrast_and_saturation_by_definition(seed, factor):
    x = picture(n=1, height=3, width=4, seed=seed)
    pixels = x[0].flatten(1).T.tolist()
    greys = [slow.luma(*pixel) for pixel in pixels]
    mean = sum(greys) / len(greys)
    expected = {
        augment.brightness: [[slow.clipped(factor * v) for v in pixel] for pixel in pixels],
        augment.contrast: [[slow.clipped(mean + factor * (v - mean)) for v in pixel] for pixel in pixels],
        augment.saturation: [
            [slow.clipped(grey + factor * (v - grey)) for v in pixel] for pixel, grey in zip(pixels, greys, strict=True)
        ],
    }
    for function, values in expected.items():
        assert close(function(x, column(factor))[0].flatten(1).T, values)


@given(st.integers(0, 1000), st.floats(-0.5, 0.5))
def test_hue_turns_as_colorsys_does(seed, turn):
    x = picture(n=1, height=3, width=4, seed=seed)
    x[0, :, 0, 0] = 0.4  # grey has no hue
    x[0, :, 0, 1] = torch.tensor([0.7, 0.7, 0.2])  # two channels share the maximum
    x[0, :, 0, 2] = torch.tensor([0.0, 0.0, 1.0])
    found = augment.hue(x, column(turn))[0].flatten(1).T
    assert close(found, [slow.turned(*pixel, turn) for pixel in x[0].flatten(1).T.tolist()])


def test_strengths_belong_to_their_samples():
    x = picture(n=1).expand(3, -1, -1, -1)
    for function, values in [
        (augment.brightness, (1.0, 0.5, 0.8)),
        (augment.contrast, (1.0, 0.5, 0.8)),
        (augment.saturation, (1.0, 0.5, 0.8)),
        (augment.hue, (0.0, 0.1, -0.1)),
    ]:
        found = function(x, column(*values))
        assert torch.allclose(found[0], x[0], atol=1e-6)
        for i, value in enumerate(values):
            assert torch.allclose(found[i : i + 1], function(x[i : i + 1], column(value)), atol=1e-6)
        assert not torch.allclose(found[1], found[2], atol=1e-3)


@pytest.mark.parametrize("channels", [1, 3])
def test_jitter_is_its_four_steps_in_the_order_drawn(channels):
    x, orders = picture(n=8, channels=channels, height=3, width=2), set()
    for seed in range(6):
        drawn = generator(seed)
        strengths = (torch.rand(4, 8, generator=drawn) * 2 - 1).tolist()
        chosen, grey = torch.rand(2, 8, generator=drawn).tolist()
        order = torch.randperm(4, generator=drawn).tolist()
        orders.add(tuple(order))
        found = augment.jitter(x, generator(seed)).flatten(2).transpose(1, 2)
        for i, pixels in enumerate(x.flatten(2).transpose(1, 2).tolist()):
            for kind in order if chosen[i] < 0.8 else ():
                pixels = slow.jittered(pixels, kind, strengths[kind][i])
            if grey[i] < 0.2 and channels == 3:
                pixels = [[slow.luma(*pixel)] * 3 for pixel in pixels]
            assert close(found[i], pixels)
    assert len(orders) > 3


def test_jitter_changes_four_fifths_and_greys_a_fifth():
    n = 4000
    x = picture(n=1, height=2, width=2).expand(n, -1, -1, -1)
    found = augment.jitter(x, generator(3))
    grey = (found - found.mean(1, keepdim=True)).abs().amax((1, 2, 3)) < 1e-5
    same = (found == x).flatten(1).all(1)
    assert abs(grey.float().mean() - 0.2) < 4 * math.sqrt(0.2 * 0.8 / n)
    assert abs(same.float().mean() - 0.2 * 0.8) < 4 * math.sqrt(0.16 * 0.84 / n)


def test_grey_images_are_jittered_in_brightness_and_contrast_alone():
    """Both are the same affine map for all pixels of an image, if nothing is clipped."""
    x = 0.3 + 0.2 * picture(n=50, channels=1)
    found = augment.jitter(x, generator(0))
    assert found.shape == x.shape
    for image, changed in zip(x.flatten(1), found.flatten(1), strict=True):
        a, b = torch.linalg.lstsq(
            torch.stack([image, torch.ones_like(image)], 1), changed.unsqueeze(1)
        ).solution.flatten()
        assert torch.allclose(a * image + b, changed, atol=1e-4)
    assert 5 <= (found == x).flatten(1).all(1).sum() <= 18


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_images_keep_shape_and_range(name, channels):
    for x in (picture(n=64, channels=channels), torch.ones(64, channels, 9, 7), torch.zeros(64, channels, 9, 7)):
        found = AUGMENTATIONS[name](x, generator(2))
        assert found.shape == x.shape
        assert found.dtype == x.dtype
        assert found.min() >= -1e-6
        assert found.max() <= 1 + 1e-6


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_draws_come_from_the_given_generator_alone(name):
    x = picture()
    given_x, state = x.clone(), torch.get_rng_state()
    one, again, other = (AUGMENTATIONS[name](x, generator(seed)) for seed in (5, 5, 6))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert torch.equal(x, given_x)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_equal_samples_become_different_ones(name):
    x = picture(n=1).expand(30, -1, -1, -1)
    assert len(AUGMENTATIONS[name](x, generator(0)).flatten(1).unique(dim=0)) > 20


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_a_sample_does_not_depend_on_the_others(name):
    x = picture()
    changed = x.clone()
    changed[3] = 0.5
    one, other = AUGMENTATIONS[name](x, generator(0)), AUGMENTATIONS[name](changed, generator(0))
    kept = [i for i in range(6) if i != 3]
    assert torch.allclose(one[kept], other[kept], atol=1e-6)
    assert not torch.allclose(one[3], other[3], atol=1e-2)
