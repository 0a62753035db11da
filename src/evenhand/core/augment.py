"""Augmentation of whole batches; every sample has its own draws, from an explicit generator.

Images are floats in [0, 1], (n, c, h, w) with one or three channels, and keep their shape.

    crop    shift by up to 4 pixels over a black border, flip with p = .5
    scr     resized crop (area 0.2-1, ratio 3/4-4/3), flip, colour jitter (.4, .4, .4, .1) with p = .8, grey with p = .2
"""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Generator, Tensor

from evenhand import errors
from evenhand.core.batch import Batch, unit
from evenhand.core.draws import as_global

LUMA = (0.299, 0.587, 0.114)
TRIES = 10


def crop(x: Tensor, generator: Generator) -> Tensor:
    """Shift and flip: the usual augmentation of small images."""
    n, _, h, w = x.shape
    shifts = torch.randint(-4, 5, (2, n, 1), generator=generator)
    rows, columns = torch.arange(h) + shifts[0], torch.arange(w) + shifts[1]
    return _resample(x, rows, _flipped(columns, generator))


def scr(x: Tensor, generator: Generator) -> Tensor:
    """Resized crop, flip, colour jitter and grey: the pipeline of SCR."""
    return jitter(resized_crop(x, generator), generator)


def resized_crop(x: Tensor, generator: Generator) -> Tensor:
    """Cut out a random box, scale it to the full size by bilinear interpolation, and flip half of the images.

    A box has an area of 0.2-1 of the image and a ratio of 3/4-4/3. The first of ten tries that fits into the image is
    used, or the whole image if none does.
    """
    n, _, h, w = x.shape
    area, ratio = torch.rand(2, n, TRIES, generator=generator)
    area = h * w * (0.2 + 0.8 * area)
    ratio = torch.exp((2 * ratio - 1) * math.log(4 / 3))
    widths, heights = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
    fits = (widths >= 1) & (widths <= w) & (heights >= 1) & (heights <= h)
    first = fits.int().argmax(1, keepdim=True)
    width = torch.where(fits, widths, w).gather(1, first)
    height = torch.where(fits, heights, h).gather(1, first)
    place = torch.rand(2, n, 1, generator=generator)
    rows = _stretched((place[0] * (h - height + 1)).floor(), height, h)
    columns = _stretched((place[1] * (w - width + 1)).floor(), width, w)
    return _resample(x, rows, _flipped(columns, generator))


def jitter(x: Tensor, generator: Generator) -> Tensor:
    """Jitter brightness, contrast, saturation and hue of 80 % of the images, then turn 20 % grey.

    Each sample has its own strengths; the order of the four is drawn once per call. Images with one channel get only
    brightness and contrast.
    """
    n, colour = len(x), x.shape[1] == 3
    strengths = (torch.rand(4, n, 1, 1, 1, generator=generator) * 2 - 1).to(x.device)
    chosen, grey = (torch.rand(2, n, 1, 1, 1, generator=generator) < torch.tensor([0.8, 0.2]).view(2, 1, 1, 1, 1)).to(
        x.device
    )
    changed = x
    for kind in torch.randperm(4, generator=generator).tolist():
        u = strengths[kind]
        if kind == 0:
            changed = brightness(changed, 1 + 0.4 * u)
        elif kind == 1:
            changed = contrast(changed, 1 + 0.4 * u)
        elif kind == 2 and colour:
            changed = saturation(changed, 1 + 0.4 * u)
        elif kind == 3 and colour:
            changed = hue(changed, 0.1 * u)
    x = torch.where(chosen, changed, x)
    return torch.where(grey, luma(x), x) if colour else x


def brightness(x: Tensor, factor: Tensor) -> Tensor:
    """Scale all channels; `factor` is (n, 1, 1, 1)."""
    return (x * factor).clamp(0, 1)


def contrast(x: Tensor, factor: Tensor) -> Tensor:
    """Scale the distance to the image's mean luma."""
    mean = (luma(x) if x.shape[1] == 3 else x).mean((1, 2, 3), keepdim=True)
    return (mean + factor * (x - mean)).clamp(0, 1)


def saturation(x: Tensor, factor: Tensor) -> Tensor:
    """Scale the distance to the grey image."""
    grey = luma(x)
    return (grey + factor * (x - grey)).clamp(0, 1)


def hue(x: Tensor, turn: Tensor) -> Tensor:
    """Rotate the HSV hue by a fraction of the circle; value and chroma stay the same."""
    r, g, b = x.unbind(1)
    value, low = x.amax(1), x.amin(1)
    chroma = value - low
    safe = chroma.clamp_min(1e-12)
    sixths = torch.where(
        value == r, (g - b) / safe, torch.where(value == g, 2 + (b - r) / safe, 4 + (r - g) / safe)
    ) + 6 * turn.squeeze(1)
    k = (sixths.unsqueeze(1) + torch.tensor([5.0, 3.0, 1.0], device=x.device).view(1, 3, 1, 1)) % 6
    return value.unsqueeze(1) - chroma.unsqueeze(1) * torch.minimum(k, 4 - k).clamp(0, 1)


def luma(x: Tensor) -> Tensor:
    """The grey value of RGB images, (n, 1, h, w)."""
    return (x * x.new_tensor(LUMA).view(1, 3, 1, 1)).sum(1, keepdim=True)


def _stretched(start: Tensor, length: Tensor, side: int) -> Tensor:
    """The position of each of `side` pixels in a box, (n, side): scaled pixel centres, clamped to the box's pixels."""
    centres = start + (torch.arange(side) + 0.5) * length / side - 0.5
    return torch.minimum(torch.maximum(centres, start), start + length - 1)


def _flipped(columns: Tensor, generator: Generator) -> Tensor:
    heads = torch.rand(len(columns), 1, generator=generator) < 0.5
    return torch.where(heads, columns.flip(1), columns)


def _resample(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Sample every image at fractional rows (n, h) and columns (n, w), black outside, with two matrix products.

    The weight of source pixel i for position p is the hat function max(0, 1 - |p - i|), which is linear interpolation.
    """
    down = (1 - (rows.unsqueeze(2) - torch.arange(x.shape[2])).abs()).clamp_min(0).to(x)
    across = (1 - (columns.unsqueeze(1) - torch.arange(x.shape[3]).view(-1, 1)).abs()).clamp_min(0).to(x)
    return (down.unsqueeze(1) @ x @ across.unsqueeze(1)).contiguous(memory_format=torch.channels_last)


def own(x: Tensor, augment: Callable[[Tensor], Tensor], generator: Generator) -> Tensor:
    """Augment with the user's own function, which draws from torch's global generator."""
    with as_global(generator):
        augmented = augment(x.clone(memory_format=torch.contiguous_format))  # it may use `view`
    if not isinstance(augmented, Tensor) or augmented.shape != x.shape:
        got = tuple(augmented.shape) if isinstance(augmented, Tensor) else type(augmented).__name__
        raise errors.wrong("The augmentation of a learner", f"return a tensor of the shape {tuple(x.shape)}", got)
    return unit(augmented.detach().to(x))


AUGMENTATIONS: dict[str, Callable[[Tensor, Generator], Tensor]] = {"crop": crop, "scr": scr}


def with_views(batch: Batch, augment: str | Callable[[Tensor], Tensor], views: str, generator: Generator) -> Batch:
    """The same batch with its views drawn: the augmented one, after the raw one if `views` is "concat"."""
    if views == "none":
        return batch
    raw = unit(batch.x)
    augmented = AUGMENTATIONS[augment](raw, generator) if isinstance(augment, str) else own(raw, augment, generator)
    augmented = augmented.to(raw.dtype)  # torch's default may be another
    return replace(batch, views=augmented if views == "replace" else torch.cat([raw, augmented]))
