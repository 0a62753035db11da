"""What a user passes to a learner, as plain tensors and values, or an error that says what is wrong."""

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from evenhand import errors

Label = Any  # str, int, bool, float, or tuples of these: what JSON can hold


class Kind(NamedTuple):
    """What all samples of a learner have in common: the name of their type, and the shape of one."""

    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, samples: Tensor) -> "Kind":
        """The kind of a batch (n, ...)."""
        return cls(str(samples.dtype).removeprefix("torch."), tuple(samples.shape[1:]))


def samples(x: Any) -> Tensor:
    """Images (n, c, h, w) or vectors (n, d) as a tensor of uint8 or of finite float32."""
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
    """Refuse floats outside [0, 1], which augmentations, edits and conditions would clip."""
    if images.is_floating_point() and (images.amin() < 0 or images.amax() > 1):
        extent = f"{images.amin():g} to {images.amax():g}"
        raise errors.InputError(f"Images to augment or change must be uint8 or floats in [0, 1]. Got {extent} instead.")


def labels(y: Any, count: int) -> list[Label]:
    """The labels of `count` samples as plain Python values."""
    values = y.tolist() if isinstance(y, Tensor | np.ndarray) else y
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise errors.wrong("The labels", "be a sequence with one label per sample", y)
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


def label_key(label: Label) -> str:
    """A key that distinguishes the labels 1, 1.0, True and "1"."""
    return json.dumps(label)


def device(name: str) -> torch.device:
    """The torch device of this name; "auto" takes a GPU if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError, TypeError):
        raise errors.wrong("The 'device' of a learner", "be auto, cpu, or a GPU that torch sees", name) from None
