"""Datasets from arrays, in Python or in an .npz file: checked, brought to one form, split if there is no test set."""

import zipfile
from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evenhand import errors
from evenhand.datasets.dataset import Dataset
from evenhand.datasets.decoding import Array
from evenhand.datasets.prepared import RawData

HELD_OUT = 5  # without a test set, every fifth sample of a class is for testing
NAMES = (("x_train", "y_train", "x_test", "y_test"), ("train_x", "train_y", "test_x", "test_y"), ("x", "y"))
SPLITS = {  # by what files call them
    **dict.fromkeys(("train", "training", "trainset"), "train"),
    **dict.fromkeys(("test", "testing", "testset"), "test"),
    **dict.fromkeys(("validation", "valid", "val"), "validation"),
}
MAX_BYTES = 1 << 34  # of one array in a file; more is a mistake or an attack


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
    raw = _raw_data(name, _pair(train), None if test is None else _pair(test), classes)
    x, y, test_x, test_y = (
        torch.from_numpy(np.ascontiguousarray(array)) for array in (raw.train_x, raw.train_y, raw.test_x, raw.test_y)
    )
    return Dataset(name, x, y, test_x, test_y, raw.classes)


def find_npz(path: Path) -> list[Path]:
    """Return the file, which must be there."""
    if not path.is_file():
        raise errors.InputError(f"There is no file {path}.")
    return [path]


def read_npz(path: Path) -> RawData:
    """Read an .npz file with x_train, y_train, x_test and y_test, or with x and y; `classes` may name the classes.

    Samples are vectors (n, d) or images (n, c, h, w), (n, h, w, c) or (n, h, w), as uint8 or as floats in [0, 1];
    labels are whole numbers or strings. Without a test set, every fifth sample of a class is held out for testing. An
    array called `channels_first` says that images are (n, c, h, w), whatever their sizes.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if any(info.file_size > MAX_BYTES for info in archive.infolist()):
                raise errors.InputError(f"{path} is too large: one of its arrays has more than 16 GB.")
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        for array in arrays.values():
            if not isinstance(array, np.ndarray):
                raise ValueError  # numpy returns members without its header as bytes
            if array.dtype.kind == "U":
                array.tolist()  # raises for invalid characters
    except errors.EvenhandError:
        raise
    except Exception:  # a broken header can raise nearly anything
        raise errors.InputError(f"{path} is damaged or holds something other than arrays.") from None
    classes = [str(name) for name in arrays["classes"].flatten()] if "classes" in arrays else None
    for names in NAMES:
        if set(names) <= set(arrays):
            x, y, *test = (arrays[name] for name in names)
            pairs = (x, y), (test[0], test[1]) if test else None
            return _raw_data(str(path), *pairs, classes, channels_first="channels_first" in arrays)
    found = ", ".join(sorted(arrays)) or "nothing"
    raise errors.InputError(f"{path} must hold {', '.join(NAMES[0])}, or x and y. It holds {found}.")


def hold_out(x: Any, y: Array) -> tuple[Any, Array, Any, Array]:
    """Split an array or a list of samples: every fifth one of a class is for testing, but never its only one."""
    held = np.zeros(len(y), bool)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        held[rows[::HELD_OUT]] = len(rows) > 1
    if isinstance(x, np.ndarray):
        return x[~held], y[~held], x[held], y[held]
    return list(compress(x, ~held)), y[~held], list(compress(x, held)), y[held]


def _raw_data(
    name: str,
    train: tuple[Array, Array],
    test: tuple[Array, Array] | None,
    classes: Sequence[str] | None,
    channels_first: bool = False,
) -> RawData:
    """Check samples and labels, number the classes from 0, and hold out samples if there is no test set."""
    x, y = _checked(name, *train, channels_first)
    if test is None:
        x, y, test_x, test_y = hold_out(x, y)
    else:
        test_x, test_y = _checked(name, *test, channels_first)
        if test_x.shape[1:] != x.shape[1:] or test_x.dtype != x.dtype:
            expected, got = (f"{array.dtype} {array.shape[1:]}" for array in (x, test_x))
            raise errors.wrong(f"The test samples of {name}", f"be like the training samples, {expected}", got)
    labels, numbers = np.unique(np.concatenate([y, test_y]), return_inverse=True)
    class_names = tuple(str(label) for label in labels)
    if classes is not None and labels.dtype.kind in "iu":
        if outside := [int(label) for label in (labels[0], labels[-1]) if not 0 <= label < len(classes)]:
            must = f"be numbers from 0 to {len(classes) - 1}, as there are {len(classes)} named classes"
            raise errors.wrong(f"The labels of {name}", must, outside[0])
        class_names, numbers = tuple(classes), labels[numbers]
    if len(labels) < 2:
        raise errors.InputError(f"{name} must have at least two classes. It has {len(labels)}.")
    return RawData(x, numbers[: len(y)], test_x, numbers[len(y) :], class_names)


def _checked(name: str, x: Array, y: Array, channels_first: bool) -> tuple[Array, Array]:
    """Return vectors (n, d) or images (n, c, h, w), as uint8 or float32, with one whole number or string for each."""
    x = _samples(name, x, channels_first)
    if y.shape not in ((len(x),), (len(x), 1)):
        raise errors.wrong(f"The labels of {name}", f"have the shape ({len(x)},), one per sample", y.shape)
    if y.dtype == object and {type(label) for label in y.flat} in ({str}, {int}):  # as pandas has them
        y = np.array(y.tolist())
    if y.dtype.kind not in "iuUb":
        raise errors.wrong(f"The labels of {name}", "be whole numbers or strings", str(y.dtype))
    if y.dtype.kind == "u" and y.max() >= 1 << 63:
        raise errors.wrong(f"The labels of {name}", "be below 2^63, or strings", int(y.max()))
    return x, y.reshape(-1).astype(np.int64 if y.dtype.kind == "u" else y.dtype)  # signed and unsigned may be mixed


def _samples(name: str, x: Array, channels_first: bool) -> Array:
    if x.ndim == 3:
        x = x[:, None]
    elif channels_first:
        pass
    elif x.ndim == 4 and x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    elif x.ndim == 4 and x.shape[3] == 4 and min(x.shape[1:3]) > 4:  # else 4 may well be the width
        must = "have one or three channels if these come last"
        raise errors.wrong(f"The images of {name}", must, x.shape, "Of RGBA images, keep x[..., :3].")
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
            raise errors.wrong(f"The float images of {name}", "be in [0, 1]", values)
        # Not converted to uint8 here: only their owner knows whether 1 is white or nearly black.
        raise errors.wrong(f"The integer images of {name}", "be uint8", f"{x.dtype}, {values}")
    return floats


def _pair(data: Any) -> tuple[Array, Array]:
    if isinstance(data, tuple | list) and len(data) == 2:
        x, y = data
    elif hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, Mapping):
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
