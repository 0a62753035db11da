import math
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenhand.core import augment
from evenhand.core.augment import AUGMENTATIONS
from reference import augment as pipelines
from reference import images as slow

EDGES = [[0.0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 1], [1, 0, 1], [1, 1, 0], [0.5, 0.5, 0.5]]
SIZES = [(9, 7), (8, 8), (4, 24), (3, 2), (2, 2), (1, 1)]
STEPS = [augment.brightness, augment.contrast, augment.saturation, augment.hue]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def picture(n=6, channels=3, height=9, width=7, seed=0):
    return torch.rand(n, channels, height, width, generator=generator(seed))


def close(one, other):
    return torch.allclose(one, torch.tensor(other, dtype=one.dtype), atol=1e-5)


def column(*values):
    return torch.tensor(values).view(-1, 1, 1, 1)


def draws(name, n, drawn):
    """The numbers of a pipeline in the order in which it draws them, one dictionary for each sample."""
    if name == "crop":
        down, right = torch.randint(-4, 5, (2, n), generator=drawn).tolist()
        columns = {"down": down, "right": right, "flip": torch.rand(n, generator=drawn).tolist()}
    else:
        areas, ratios = torch.rand(2, n, 10, generator=drawn).tolist()
        top, left, flip = torch.rand(3, n, generator=drawn).tolist()
        strengths = torch.rand(4, n, generator=drawn).T.tolist()
        chosen, grey = torch.rand(2, n, generator=drawn).tolist()
        columns = {"areas": areas, "ratios": ratios, "top": top, "left": left, "flip": flip}
        columns |= {"strengths": strengths, "chosen": chosen, "grey": grey}
        columns["order"] = [torch.randperm(4, generator=drawn).tolist()] * n
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def replayed(name, x, seed, altered=lambda draw: draw):
    found = zip(x.tolist(), draws(name, len(x), generator(seed)), strict=True)
    return [getattr(pipelines, name)(image, altered(draw)) for image, draw in found]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("height", "width"), SIZES)
@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_a_pipeline_does_to_a_batch_what_the_same_draws_do_to_each_image(name, height, width, channels):
    for seed in range(4):
        x = picture(8, channels, height, width, seed)
        if seed == 3:
            x = x.round()  # black, white and the six pure colours
        assert close(AUGMENTATIONS[name](x, generator(seed)), replayed(name, x, seed))
        assert close(AUGMENTATIONS[name](x.double(), generator(seed)), replayed(name, x.double(), seed))


def test_the_sizes_above_have_boxes_of_one_pixel_and_of_the_whole_image():
    drawn = [draw for seed in range(4) for draw in draws("scr", 8, generator(seed))]
    found = {size: {pipelines.first_box(*size, draw) for draw in drawn} for size in SIZES}
    assert {(top, left, 1, 1) for top in (0, 1) for left in (0, 1)} <= found[2, 2]
    assert all((0, 0, *size) in found[size] for size in [(4, 24), (3, 2), (2, 2), (1, 1)])
    assert len(found[9, 7]) > 20


OTHER_DRAWS = {
    "the other flip": lambda d: d | {"flip": 1 - d["flip"]},
    "height for width": lambda d: d | {"ratios": [1 - r for r in d["ratios"]]},
    "another area": lambda d: d | {"areas": [1 - a for a in d["areas"]]},
    "the second try": lambda d: d | {"areas": d["areas"][1:], "ratios": d["ratios"][1:]},
    "left for top": lambda d: d | {"top": d["left"], "left": d["top"]},
    "the order reversed": lambda d: d | {"order": d["order"][::-1]},
    "strengths exchanged": lambda d: d | {"strengths": d["strengths"][::-1]},
    "always jittered": lambda d: d | {"chosen": 0},
    "never grey": lambda d: d | {"grey": 1},
}


@pytest.mark.parametrize("mutation", OTHER_DRAWS)
def test_other_draws_are_noticed(mutation):
    x = picture(n=12)
    assert close(augment.scr(x, generator(1)), replayed("scr", x, 1))
    assert not close(augment.scr(x, generator(1)), replayed("scr", x, 1, OTHER_DRAWS[mutation]))


def nearest(box, height, width):
    return [[box[i * len(box) // height][j * len(box[0]) // width] for j in range(width)] for i in range(height)]


def aligned(box, height, width):
    """The outer pixels' centres stay where they are, instead of the outer edges."""
    rows = [i * (len(box) - 1) / (height - 1) for i in range(height)]
    columns = [j * (len(box[0]) - 1) / (width - 1) for j in range(width)]
    return [[slow.bilinear([box], row, column)[0] for column in columns] for row in rows]


WRONG = {
    "the nearest pixel": (pipelines, "scaled", nearest),
    "corners aligned": (pipelines, "scaled", aligned),
    "all channels equally bright": (slow, "luma", lambda r, g, b: (r + g + b) / 3),
    "nothing clipped": (slow, "clipped", lambda value: value),
    "hue the other way": (slow, "turned", lambda r, g, b, turn, right=slow.turned: right(r, g, b, -turn)),
}


@pytest.mark.parametrize("mutation", WRONG)
def test_a_wrong_definition_is_noticed(mutation, monkeypatch):
    x = picture(n=12)
    monkeypatch.setattr(*WRONG[mutation])
    assert not close(augment.scr(x, generator(1)), replayed("scr", x, 1))


def boxes(n, height, width, drawn):
    for draw in draws("scr", n, drawn):
        yield *pipelines.first_box(height, width, draw), draw["flip"] < 0.5


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


def test_an_image_of_one_pixel_keeps_it():
    """One try in nine rounds to a box without a pixel here, and must not be taken."""
    x = picture(n=500, height=1, width=1)
    assert torch.equal(augment.resized_crop(x, generator(1)), x)


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


@pytest.mark.parametrize("u", [-5, -1, -0.3, 0, 0.5, 1, 5])
@pytest.mark.parametrize("kind", range(4))
def test_a_step_of_the_jitter_treats_black_white_and_pure_colours_by_definition(kind, u):
    """Each colour fills an image of its own, and the last image holds them all; u beyond 1 turns the hue by half."""
    pixels = [[colour] * len(EDGES) for colour in EDGES] + [EDGES]
    x = torch.tensor(pixels).transpose(1, 2).unsqueeze(2)  # (n, 3, 1, w)
    strengths = torch.linspace(0, u, len(x)).flip(0)
    factors = 0.1 * strengths if kind == 3 else 1 + 0.4 * strengths
    found = STEPS[kind](x, factors.view(-1, 1, 1, 1)).squeeze(2).transpose(1, 2)
    expected = [slow.jittered(image, kind, u) for image, u in zip(pixels, strengths.tolist(), strict=True)]
    assert close(found, expected)


@pytest.mark.parametrize("kind", [0, 1])
def test_brightness_and_contrast_of_grey_images_by_definition(kind):
    x = torch.cat([picture(n=4, channels=1), torch.zeros(1, 1, 9, 7), torch.ones(1, 1, 9, 7)])
    strengths = [-1.0, -0.4, 0.3, 1.0, 1.0, 0.5]
    found = STEPS[kind](x, column(*strengths) * 0.4 + 1).flatten(2).transpose(1, 2)
    pixels = x.flatten(2).transpose(1, 2).tolist()
    assert close(found, [slow.jittered(image, kind, u) for image, u in zip(pixels, strengths, strict=True)])


def test_luma_weighs_red_green_and_blue():
    """With the weights of the image's own type: those of float32, taken for float64, make white brighter than 1."""
    for dtype, tolerance in [(torch.float32, 1e-6), (torch.float64, 1e-15)]:
        found = augment.luma(torch.tensor(EDGES, dtype=dtype).view(-1, 3, 1, 1))
        assert found.shape == (len(EDGES), 1, 1, 1)
        expected = torch.tensor([slow.luma(*colour) for colour in EDGES], dtype=dtype)
        assert torch.allclose(found.flatten(), expected, rtol=0, atol=tolerance)
        assert found.max() <= 1


@pytest.mark.parametrize("channels", [1, 3])
def test_jitter_is_its_four_steps_in_an_order_that_a_call_draws_for_all(channels):
    x, orders = picture(n=8, channels=channels, height=3, width=2), set()
    for seed in range(6):
        drawn = generator(seed)
        strengths = torch.rand(4, 8, generator=drawn).T.tolist()
        chosen, grey = torch.rand(2, 8, generator=drawn).tolist()
        order = torch.randperm(4, generator=drawn).tolist()
        orders.add(tuple(order))
        found = augment.jitter(x, generator(seed))
        for i, image in enumerate(x.tolist()):
            draw = {"strengths": strengths[i], "chosen": chosen[i], "grey": grey[i], "order": order}
            assert close(found[i], pipelines.jitter(image, draw))
    assert len(orders) > 3


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
def test_images_keep_shape_type_and_range(name, channels):
    y = picture(n=64, channels=channels)
    for x in (y, y.round(), torch.ones_like(y), torch.zeros_like(y), y.double(), y.round().double()):
        found = AUGMENTATIONS[name](x, generator(2))
        assert found.shape == x.shape
        assert found.dtype == x.dtype
        assert found.min() >= 0
        assert found.max() <= 1


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_draws_come_from_the_given_generator_alone(name, channels):
    x = picture(channels=channels)
    given_x, state = x.clone(), torch.get_rng_state()
    one, again, other = (AUGMENTATIONS[name](x, generator(seed)) for seed in (5, 5, 6))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    drawn = generator(5)
    assert torch.equal(AUGMENTATIONS[name](x, drawn), one)
    assert not torch.equal(AUGMENTATIONS[name](x, drawn), one)
    assert torch.equal(x, given_x)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_equal_samples_become_different_ones(name, channels):
    x = picture(n=1, channels=channels).expand(30, -1, -1, -1)
    assert len(AUGMENTATIONS[name](x, generator(0)).flatten(1).unique(dim=0)) > 20


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_a_sample_does_not_depend_on_the_others(name, channels):
    x = picture(channels=channels)
    one = AUGMENTATIONS[name](x, generator(0))
    for i in range(6):
        changed = x.clone()
        changed[i] = 0.5
        other = AUGMENTATIONS[name](changed, generator(0))
        kept = [j for j in range(6) if j != i]
        assert torch.allclose(one[kept], other[kept], atol=1e-6)
        assert not torch.allclose(one[i], other[i], atol=1e-2)


@cache
def measured(n=4000, side=32):
    """What `scr` drew for each of n samples, read off from what it did to images made for it.

    A ramp shows the box: its first and last values are the box's first and last pixels. The jitter draws the same for
    every image, so that a flat grey shows the brightness, two greys the contrast too, and a red all four.
    """
    drawn = generator(1)
    ramps = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")).float()
    found = augment.resized_crop(ramps.expand(n, -1, -1, -1), drawn)
    rows, columns = found[:, 0, :, 0].round(), found[:, 1, 0].round()
    box = {"top": rows[:, 0], "left": columns.amin(1), "flip": (columns[:, 0] > columns[:, -1]).float()}
    box |= {"height": rows[:, -1] - rows[:, 0] + 1, "width": columns.amax(1) - columns.amin(1) + 1}
    state, seen = drawn.get_state(), []
    for pixels in ([[0.5] * 3], [[0.4] * 3, [0.6] * 3], [[0.55, 0.45, 0.45]]):
        x = torch.tensor(pixels).T.view(1, 3, 1, -1).expand(n, -1, -1, -1)
        seen.append(augment.jitter(x, drawn.set_state(state)).squeeze(2))
    flat, pair, (red, green, blue) = seen[0][:, 0, 0], seen[1][:, 0], seen[2].squeeze(2).T
    bright, both, chroma = flat / 0.5, (pair[:, 1] - pair[:, 0]) / 0.2, red - torch.minimum(green, blue)
    chosen, grey = flat != 0.5, chroma < 1e-4
    strengths = {
        "brightness": (bright - 1) / 0.4,
        "contrast": (both / bright - 1) / 0.4,
        "saturation": (chroma / 0.1 / both - 1) / 0.4,
        "hue": (green - blue) / chroma / 0.6,
    }
    strengths = {name: torch.where(chosen & ~grey, u, 0) for name, u in strengths.items()}
    return box | strengths | {"chosen": chosen.float(), "grey": grey.float()}


def excess(counts, expected):
    """Pearson's statistic in standard deviations over its mean."""
    counts, expected = torch.as_tensor(counts).double(), torch.as_tensor(expected).double()
    assert expected.min() > 5
    cells = expected.numel()
    return float(((counts - expected) ** 2 / expected).sum() - (cells - 1)) / math.sqrt(2 * (cells - 1))


def cells(sizes, side=32):
    """How many boxes have which area (four parts of 0.2-1) and which ratio (four of 3/4-4/3)."""
    counts = torch.zeros(4, 4)
    for height, width in sizes:
        area, ratio = height * width / side**2, math.log(width / height) / math.log(4 / 3)
        counts[min(max(int((area - 0.2) * 5), 0), 3), min(max(math.floor((ratio + 1) * 2), 0), 3)] += 1
    return counts


def law(area=lambda u: u, ratio=lambda u: u, side=32):
    """The share of boxes in each cell, counted on a fine grid of tries; ten tries never fail here."""
    grid = [(i + 0.5) / 200 for i in range(200)]
    tries = [pipelines.tried(side, side, area(a), ratio(r)) for a in grid for r in grid]
    counts = cells([box for box in tries if box is not None])
    return counts / counts.sum()


def test_boxes_have_the_areas_and_ratios_asked_for():
    found = measured()
    counts = cells(list(zip(found["height"].tolist(), found["width"].tolist(), strict=True)))
    assert abs(excess(counts, 4000 * law())) < 4
    assert excess(counts, 4000 * law(area=lambda u: u**1.2)) > 4
    assert excess(counts, 4000 * law(area=lambda u: 0.0625 + 0.9375 * u)) > 4  # from 0.25
    linear = law(ratio=lambda u: 0.5 + 0.5 * math.log(3 / 4 + 7 / 12 * u) / math.log(4 / 3))
    assert excess(counts, 4000 * linear) > 4


@pytest.mark.parametrize(("start", "length"), [("top", "height"), ("left", "width")])
def test_boxes_lie_anywhere_in_the_image(start, length):
    """The place is uniform over the room + 1 places there are, of which the first and the last are counted."""
    place, room = measured()[start], 32 - measured()[length]
    assert place.min() >= 0
    assert (place <= room).all()
    once = 1 / (room + 1)
    for end in (torch.zeros_like(room), room):
        assert abs((place == end).float().sum() - once.sum()) < 4 * (once * (1 - once)).sum().sqrt()
    assert abs((place - room / 2).sum()) < 4 * ((room + 1) ** 2 - 1).div(12).sum().sqrt()


def test_half_of_the_samples_are_flipped():
    assert abs(measured()["flip"].mean() - 0.5) < 4 * 0.5 / math.sqrt(4000)


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "hue"])
def test_strengths_are_uniform(name):
    found = measured()
    u = found[name][(found["chosen"] == 1) & (found["grey"] == 0)]
    assert u.abs().max() < 1 + 1e-4
    assert abs(excess(torch.histc(u, 10, -1.0001, 1.0001), torch.full((10,), len(u) / 10))) < 4
    assert excess(torch.histc(0.9 * u, 10, -1, 1), torch.full((10,), len(u) / 10)) > 4


def test_four_fifths_are_jittered_and_independently_a_fifth_is_grey():
    counts = (2 * measured()["chosen"] + measured()["grey"]).long().bincount(minlength=4)
    assert abs(excess(counts, 4000 * torch.tensor([0.16, 0.04, 0.64, 0.16]))) < 4
    assert excess(counts, 4000 * torch.tensor([0.2, 0.05, 0.6, 0.15])) > 4


def test_shifts_are_uniform_whether_flipped_or_not():
    """The centre of an image of 11 by 11 says where it came from, its neighbour whether it is flipped."""
    x = torch.arange(121.0).view(1, 1, 11, 11).expand(16200, -1, -1, -1)
    found = augment.crop(x, generator(1))[:, 0, 5].long()
    flip, row, place = (found[:, 6] < found[:, 5]).long(), found[:, 5] // 11 - 1, found[:, 5] % 11 - 1
    assert abs(excess((flip * 81 + row * 9 + place).bincount(minlength=162), torch.full((162,), 100))) < 4


def correlations(columns):
    """The largest correlation of two draws: of one sample, or of two that are some places apart in the batch."""
    z = torch.stack([(column - column.mean()) / column.std() for column in columns])
    found = [(z @ z.T / z.shape[1] - torch.eye(len(z))).abs().max()]
    return max(found + [(z @ z.roll(lag, 1).T / z.shape[1]).abs().max() for lag in (1, 2, 3, 10)])


def test_draws_of_a_sample_and_of_its_neighbours_are_uncorrelated():
    found = dict(measured())
    height, width = found.pop("height"), found.pop("width")
    found |= {"area": height * width, "ratio": (width / height).log()}
    found |= {"top": found["top"] - (32 - height) / 2, "left": found["left"] - (32 - width) / 2}
    assert len(found) == 11
    assert correlations(found.values()) < 5 / math.sqrt(4000)
    for name, column in found.items():
        shared = column[::2].repeat_interleave(2)  # two samples with one draw
        assert correlations((found | {name: shared}).values()) > 0.4
