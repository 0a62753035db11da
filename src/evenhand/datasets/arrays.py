"""Datasets from arrays: checked, brought to one form, and split if they have no test set."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from evenhand import errors
from evenhand.datasets.dataset import Dataset
from evenhand.datasets.prepared import RawData

Array = np.ndarray[Any, Any]
HELD_OUT = 5  # without a test set, every fifth sample of a class is for testing


def dataset(train: Any, test: Any = None, name: str = "arrays", classes: Sequence[str] | None = None) -> Dataset:
    """Build a dataset from arrays.

    Parameters
    ----------
    train, test
        A pair (x, y) of arrays or tensors, or a map-style dataset of such pairs. Without a test set, every fifth
        sample of a class is held out for testing.
    name
        Its name in reports.
    classes
        Names of the classes, if labels are numbers.

    Examples
    --------
    >>> from evenhand.datasets import dataset
    >>> dataset(([[0.0], [1.0], [0.1], [0.9]], ["low", "high", "low", "high"]))
    Dataset(arrays: 2 + 2 samples of 2 classes)
    """
    x, y = _pair(train)
    test_x, test_y = (None, None) if test is None else _pair(test)
    raw = raw_arrays(name, x, y, test_x, test_y, classes)
    tensors = [
        torch.from_numpy(np.ascontiguousarray(array)) for array in (raw.train_x, raw.train_y, raw.test_x, raw.test_y)
    ]
    return Dataset(name, tensors[0], tensors[1], tensors[2], tensors[3], raw.classes)


def raw_arrays(
    name: str, x: Array, y: Array, test_x: Array | None, test_y: Array | None, classes: Sequence[str] | None = None
) -> RawData:
    """Check samples and labels, number the classes from 0, and hold out samples if there is no test set."""
    x, y = _samples(name, x), _labels(name, y, len(x))
    if test_x is None or test_y is None:
        held = held_out(y)
        x, test_x, y, test_y = x[~held], x[held], y[~held], y[held]
    else:
        test_x = _samples(name, test_x)
        test_y = _labels(name, test_y, len(test_x))
        if test_x.shape[1:] != x.shape[1:] or test_x.dtype != x.dtype:
            expected, got = (f"{array.dtype} {array.shape[1:]}" for array in (x, test_x))
            raise errors.wrong(f"The test samples of {name}", f"be like the training samples, {expected}", got)
    labels, numbers = np.unique(np.concatenate([y, test_y]), return_inverse=True)
    class_names = tuple(str(label) for label in labels)
    if classes is not None and labels.dtype.kind in "iu":
        if labels[0] < 0 or labels[-1] >= len(classes):
            raise errors.wrong(
                f"The labels of {name}", f"be numbers below the {len(classes)} named classes", labels[-1]
            )
        class_names, numbers = tuple(classes), labels[numbers]
    if len(labels) < 2:
        raise errors.InputError(f"{name} must have at least two classes. It has {len(labels)}.")
    return RawData(x, numbers[: len(y)], test_x, numbers[len(y) :], class_names)


def held_out(y: Array) -> Array:
    """Mark every fifth sample of a class for testing, but never its only one."""
    held = np.zeros(len(y), bool)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        held[rows[::HELD_OUT]] = len(rows) > 1
    return held


def _samples(name: str, x: Array) -> Array:
    """Return vectors (n, d) or images (n, c, h, w), as uint8 or float32."""
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    if x.ndim not in (2, 4) or not x.size:
        raise errors.wrong(f"The samples of {name}", "be vectors (n, d) or images (n, c, h, w)", x.shape)
    if x.dtype == np.uint8:
        return x
    if x.dtype.kind not in "fiu":
        raise errors.wrong(f"The samples of {name}", "be uint8 or floats", str(x.dtype))
    with np.errstate(over="ignore"):  # too large values become infinite
        floats = x.astype(np.float32)
    if not np.isfinite(floats).all():
        raise errors.InputError(f"The samples of {name} must be finite. Some are not.")
    if x.ndim == 4 and (floats.min() < 0 or floats.max() > 1):
        values = f"{floats.min():g} to {floats.max():g}"
        if x.dtype.kind == "f":
            raise errors.wrong(f"Images of {name} as floats", "be in [0, 1]", values)
        # Not converted to uint8 here: only their owner knows whether 1 is white or nearly black.
        raise errors.wrong(f"Images of {name} as whole numbers", "be uint8", f"{x.dtype}, {values}")
    return floats


def _labels(name: str, y: Array, count: int) -> Array:
    """Return one whole number or string per sample."""
    if y.shape not in ((count,), (count, 1)):
        raise errors.wrong(f"The labels of {name}", f"have the shape ({count},), one per sample", y.shape)
    if y.dtype.kind not in "iuUb":
        raise errors.wrong(f"The labels of {name}", "be whole numbers or strings", str(y.dtype))
    return y.reshape(count).astype(np.int64 if y.dtype.kind == "u" else y.dtype)  # signed and unsigned may be mixed


def _pair(data: Any) -> tuple[Array, Array]:
    if isinstance(data, tuple | list) and len(data) == 2:
        x, y = data
    elif hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        pairs = [data[index] for index in range(len(data))]
        if any(not isinstance(pair, tuple | list) or len(pair) != 2 for pair in pairs):
            raise errors.wrong("A map-style dataset", "return a pair (x, y) for each index", pairs[0])
        x, y = [_array(sample) for sample, _ in pairs], [label for _, label in pairs]
    else:
        raise errors.wrong("A dataset", "be a pair (x, y) or a map-style dataset of such pairs", data)
    return _array(x), _array(y)


def _array(values: Any) -> Array:
    try:
        return np.asarray(values.detach().cpu() if isinstance(values, torch.Tensor) else values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise errors.InputError(f"Samples and labels must form arrays of one shape: {error}.") from None
