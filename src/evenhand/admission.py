"""What may enter a learner: samples and labels as plain tensors and values, or a sentence about what is wrong."""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evenhand import errors

Label = Any  # str, int, bool, float, or tuples of these: what JSON can hold


def samples(x: Any) -> Tensor:
    """Images (n, c, h, w) or vectors (n, d) as a tensor of uint8 or finite float32."""
    if isinstance(x, np.ndarray):
        if x.dtype != np.uint8 and x.dtype.kind != "f":
            raise errors.wrong("Samples", "be uint8 or floats", str(x.dtype))
        x = torch.from_numpy(np.array(x, dtype=np.uint8 if x.dtype == np.uint8 else np.float32))
    if not isinstance(x, Tensor):
        raise errors.wrong("Samples", "be a torch tensor or a numpy array", type(x).__name__)
    x = x.detach()
    if x.dtype != torch.uint8 and not x.is_floating_point():
        raise errors.wrong("Samples", "be uint8 or floats", str(x.dtype).removeprefix("torch."))
    if x.ndim not in (2, 4) or 0 in x.shape:
        raise errors.wrong("A batch", "hold at least one image (n, c, h, w) or vector (n, d)", tuple(x.shape))
    if x.is_floating_point():
        x = x.to(torch.float32)
        if not torch.isfinite(x).all():
            raise errors.InputError("Samples must be finite. This batch has NaN or infinite values.")
    return x


def bounded(images: Tensor) -> None:
    """Refuse floats outside [0, 1], which no augmentation, edit or condition would leave as they are."""
    if images.is_floating_point() and (images.amin() < 0 or images.amax() > 1):
        reached = f"{images.amin():g} to {images.amax():g}"
        raise errors.InputError(
            f"Images to augment or change must be uint8 or floats in [0, 1]. Got {reached} instead."
        )


def labels(y: Any, count: int) -> list[Label]:
    """The labels of `count` samples as plain values."""
    values = y.tolist() if isinstance(y, Tensor | np.ndarray) else y
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise errors.wrong("The labels", "be a sequence with one for each sample", y)
    if len(values) != count:
        raise errors.wrong("The labels", f"be as many as the {count} samples", len(values))
    return [label(value) for value in values]


def label(value: Any) -> Label:
    """One label as plain Python, tuples instead of lists."""
    if isinstance(value, np.generic | np.ndarray | Tensor):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(label(item) for item in value)
    if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
        raise errors.wrong("A label", "be a string, a number, a boolean or a tuple of these", value)
    return value


def key(value: Label) -> str:
    """A key that tells the labels 1, 1.0, True and "1" apart."""
    return json.dumps(value)
