"""User input as plain tensors and values, or an error that says what is wrong."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from evenhand import errors
from evenhand.core.packing import Columns, pack

WIDER = {torch.uint16: torch.int32, torch.uint32: torch.int64}  # torch cannot index these


class Kind(NamedTuple):
    """What all samples of a learner have in common: the name of their dtype, and the shape of one.

    Samples of several tensors are packed into rows of bytes, with `columns`; `names` are a DataFrame's.
    """

    dtype: str
    shape: tuple[int, ...]
    columns: Columns | None = None
    names: list[str] | None = None

    @classmethod
    def of(cls, samples: Tensor, columns: Columns | None = None, names: list[str] | None = None) -> "Kind":
        """The kind of a batch (n, ...)."""
        return cls(str(samples.dtype).removeprefix("torch."), tuple(samples.shape[1:]), columns, names)

    @classmethod
    def from_json(cls, value: Any) -> "Kind":
        """The kind that was stored as a list."""
        dtype, shape, *others = value
        return cls(dtype, tuple(shape), *others)

    def like(self, other: "Kind") -> bool:
        """Whether samples of both kinds can be learned together; a DataFrame and its array can."""
        return self[:3] == other[:3]

    def __str__(self) -> str:
        if self.columns is None:
            return f"{self.dtype} {self.shape}"
        named = [(f"{name}: " if name else "", dtype, tuple(shape)) for name, dtype, shape in self.columns]
        alone = "a tuple of " if len(named) == 1 and not named[0][0] else ""
        return alone + ", ".join(f"{name}{dtype} {shape}" for name, dtype, shape in named)


def names(x: Any) -> list[str] | None:
    """The column names of a DataFrame, if they are unique."""
    found = list(map(str, x.columns)) if hasattr(x, "iloc") and hasattr(x, "columns") else []
    return found if found and len(set(found)) == len(found) else None


def samples(x: Any) -> tuple[Tensor, Columns | None]:
    """Samples as one tensor (n, ...), floats as finite float32; several tensors are packed, with their columns."""
    if isinstance(x, Mapping) and not hasattr(x, "iloc"):
        return pack({str(name): _samples(value, 1) for name, value in x.items()})
    if isinstance(x, tuple) and x and not all(map(_is_image, x)):
        return pack([_samples(value, 1) for value in x])
    return _samples(x), None


def _samples(x: Any, dimensions: int = 2) -> Tensor:
    given = x
    x = _tensor(x).detach().as_subclass(Tensor)
    if x.layout != torch.strided or x.is_meta:
        raise errors.wrong("Samples", "be dense tensors with values", str(x.layout if not x.is_meta else x.device))
    if x.ndim < dimensions or 0 in x.shape:
        raise errors.wrong("A batch", "hold at least one sample: (n, d), (n, c, h, w), (n, ...)", tuple(x.shape))
    if x.dtype == torch.uint64:
        raise errors.wrong("Samples", "have a type that torch computes with, such as int64", "uint64")
    x = x.to(WIDER.get(x.dtype, x.dtype))
    if x.is_floating_point():
        x = x.to(torch.float32)
        if not torch.isfinite(x).all():
            raise errors.InputError("Samples must be finite. This batch has NaN or infinite values.")
    return x.clone() if x.is_inference() or x.data_ptr() == getattr(given, "data_ptr", lambda: 0)() else x


def _tensor(x: Any) -> Tensor:
    """Convert arrays, DataFrames, and lists of numbers, tensors, arrays or images to a tensor."""
    if isinstance(x, Tensor):
        return x
    if hasattr(x, "iloc"):  # a DataFrame
        kinds = {getattr(kind, "kind", "O") for kind in np.atleast_1d(getattr(x, "dtypes", ()))}
        array = x.to_numpy()
        mixed = array.dtype == object and kinds and kinds <= set("fiub")  # numbers of several types
        x = x.to_numpy(np.float32, na_value=np.nan) if mixed else array
    if isinstance(x, list | tuple) and x:
        if all(map(_is_image, x)):
            x = [image.convert({"P": "RGB", "1": "L"}.get(image.mode, image.mode)) for image in x]
            x = [np.atleast_3d(np.asarray(image)).transpose(2, 0, 1) for image in x]
        if all(isinstance(each, Tensor) for each in x) and len({each.shape for each in x}) == 1:
            return torch.stack([each.detach() for each in x])
        try:
            x = np.stack([np.asarray(sample) for sample in x])
        except (ValueError, TypeError, RuntimeError):
            raise errors.InputError("The samples of a list must all have the same shape.") from None
    if not isinstance(x, np.ndarray):
        must = "be a torch tensor, a numpy array, a pandas DataFrame, or a list of samples"
        raise errors.wrong("Samples", must, type(x).__name__)
    if x.dtype.kind not in "fiub":
        raise errors.wrong("Samples", "be numbers", str(x.dtype))
    try:
        return torch.from_numpy(np.array(x, dtype=np.float32 if x.dtype.kind == "f" else x.dtype.newbyteorder("=")))
    except TypeError:
        raise errors.wrong("Samples", "have a type that torch supports", str(x.dtype)) from None


def _is_image(x: Any) -> bool:
    """Whether this is a Pillow image."""
    return hasattr(x, "getbands")


def bounded(images: Tensor) -> None:
    """Reject floats outside [0, 1], which augmentations, edits and conditions would clip."""
    if images.is_floating_point() and (images.amin() < 0 or images.amax() > 1):
        extent = f"{images.amin():g} to {images.amax():g}"
        raise errors.InputError(f"Images to augment or change must be uint8 or floats in [0, 1]. Got {extent} instead.")


def device(name: str, setting: str = "device") -> torch.device:
    """The torch device of this name; "auto" uses a GPU if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError, TypeError):
        raise errors.wrong(f"The '{setting}' of a learner", "be auto, cpu, or a GPU that torch sees", name) from None
