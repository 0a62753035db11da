"""Labels as plain Python values, each with one spelling, or an error that says what is wrong."""

import json
import math
from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evenhand import errors

Label = Any  # str, int, bool, float, or tuples of these: what JSON can hold


def plain(y: Any, count: int) -> list[Label]:
    """The labels of `count` samples: a list, a tensor, an array, or anything with `tolist`, such as a pandas Series."""
    if hasattr(y, "iloc") and y.ndim == 2:  # a DataFrame
        y = y.to_numpy()
    shape = _shape(y)
    if len(shape) > 1:
        fix = "y.ravel()" if shape[1:] == (1,) * (len(shape) - 1) else "y.argmax(1), if they are one-hot"
        raise errors.wrong("The labels", "have the shape (n,), one per sample", shape, f"Pass {fix}.")
    if isinstance(y, Tensor) and y.is_floating_point():
        y = _array(y)
    exact = isinstance(y, np.ndarray) and (y.dtype.kind in "mM" or (y.dtype.kind == "f" and y.dtype.itemsize < 8))
    values = list(y) if exact else y.tolist() if hasattr(y, "tolist") else y
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise errors.wrong("The labels", "be a sequence with one label per sample", y)
    if len(values) != count:
        raise errors.wrong("The number of labels", f"be {count}, one per sample", len(values))
    return [label(value) for value in values]


def label(value: Any) -> Label:
    """One label as plain Python: tuples instead of lists, and 1 instead of 1.0, which are the same label."""
    if isinstance(value, Tensor):
        value = _array(value)
    if isinstance(value, np.ndarray):
        if value.ndim:
            raise errors.wrong("A label", "be a single value", value)
        value = value[()]
    if isinstance(value, np.floating) and value.dtype.itemsize < 8 and not float(value).is_integer():
        value = float(str(value))  # 0.1 in any precision is 0.1
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":  # not dates, which would become numbers
        value = value.item()
    if isinstance(value, list | tuple):
        return tuple(label(item) for item in value)
    if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
        raise errors.wrong("A label", "be a string, a number, a boolean or a tuple of these", value)
    if isinstance(value, str):
        return str.__str__(value)  # not a member of an Enum, which cannot be saved
    if isinstance(value, float) and not value.is_integer():
        return float(value)
    return value if isinstance(value, bool) else int(value)


def _array(y: Tensor) -> Any:
    """A tensor as an array; bfloat16, which numpy lacks, becomes float32."""
    return (y.float() if y.dtype == torch.bfloat16 else y).detach().cpu().numpy()


def _shape(y: Any) -> tuple[int, ...]:
    """The shape of labels that are an array, or a list of rows: of numbers, or of a single value each."""
    if isinstance(y, Tensor | np.ndarray):
        return tuple(y.shape)
    rows = y if isinstance(y, list) and y and all(isinstance(row, list) and row for row in y) else [[""]]
    numbers = all(isinstance(value, int | float) for row in rows for value in row)
    widths = {len(row) for row in rows}
    return (len(rows), *widths) if len(widths) == 1 and (numbers or (widths == {1} and rows is y)) else ()


def key(label: Label) -> str:
    """A key that distinguishes the labels 1, True and "1"."""
    return json.dumps(label)


def check_alike(found: Iterable[Label], known: Sequence[Label], keys: Container[str]) -> None:
    """Raise if a new label equals a different one, as True equals 1; `keys` are those of the known labels."""
    if new := [label for label in found if key(label) not in keys]:
        spelled: dict[Label, Label] = {}
        for label in (*known, *new):
            if key(first := spelled.setdefault(label, label)) != key(label):
                raise errors.InputError(f"The labels {first!r} and {label!r} are equal. Use only one of them.")
