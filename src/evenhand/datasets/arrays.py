"""Your own arrays: an .npz file, or, in Python, pairs of arrays and map-style datasets."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evenhand import errors
from evenhand.datasets.dataset import Dataset
from evenhand.datasets.encoded import Listen
from evenhand.datasets.prepared import Raw, prepared

Array = np.ndarray[Any, Any]
NAMES = (("x_train", "y_train", "x_test", "y_test"), ("train_x", "train_y", "test_x", "test_y"))
HELD_OUT = 5  # every fifth sample of a class is for testing where there is no split
LARGEST = 1 << 34  # bytes of one array; what claims more is a mistake or an attack


def load(path: Path, listen: Listen) -> Dataset:
    """Load an .npz file with x_train, y_train, x_test and y_test, or with x and y; `classes` may name the classes.

    Samples are vectors (n, d) or images (n, c, h, w), (n, h, w, c) or (n, h, w), as bytes or as floats in [0, 1];
    labels are whole numbers or texts. Without a test set every fifth sample of a class is kept for testing.
    """
    if not path.is_file():
        raise errors.InputError(f"There is no file {path}.")
    return prepared(f"npz:{path}", path, [path], lambda: read(path), listen)


def read(path: Path) -> Raw:
    """Read the arrays of an .npz file."""
    try:
        with zipfile.ZipFile(path) as archive:
            if any(info.file_size > LARGEST for info in archive.infolist()):
                raise errors.InputError(f"{path} is not what it should be: one of its arrays has more than 16 GB.")
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        for array in arrays.values():
            if not isinstance(array, np.ndarray):
                raise ValueError  # what has no header of numpy's comes as bytes
            if array.dtype.kind == "U":
                array.tolist()  # raises where the letters are none
    except errors.EvenhandError:
        raise
    except Exception:  # a broken header can raise nearly anything
        raise errors.InputError(f"{path} is damaged, or holds something that is no array.") from None
    named = arrays.get("classes")
    classes = None if named is None else [str(name) for name in named.flatten()]
    for names in NAMES:
        if set(names) <= set(arrays):
            x, y, test_x, test_y = (arrays[name] for name in names)
            return gather(str(path), x, y, test_x, test_y, classes)
    if {"x", "y"} <= set(arrays):
        return gather(str(path), arrays["x"], arrays["y"], None, None, classes)
    found = ", ".join(sorted(arrays)) or "nothing"
    raise errors.InputError(f"{path} must hold {', '.join(NAMES[0])}, or x and y. It holds {found}.")


def gather(
    name: str, x: Array, y: Array, test_x: Array | None, test_y: Array | None, classes: Sequence[str] | None = None
) -> Raw:
    """Bring samples and labels into our form, and hold out every fifth sample of a class where there is no test set."""
    x, y = samples(name, x), labels(name, y, len(x))
    if test_x is None or test_y is None:
        held = held_out(y)
        x, test_x, y, test_y = x[~held], x[held], y[~held], y[held]
    else:
        test_x = samples(name, test_x)
        test_y = labels(name, test_y, len(test_x))
        if test_x.shape[1:] != x.shape[1:] or test_x.dtype != x.dtype:
            wanted, got = (f"{array.dtype} {array.shape[1:]}" for array in (x, test_x))
            raise errors.wrong(f"The test samples of {name}", f"be like the training samples, {wanted}", got)
    known, numbers = np.unique(np.concatenate([y, test_y]), return_inverse=True)  # numbers from 0 for any labels
    if classes is not None and known.dtype.kind in "iu":
        if known[0] < 0 or known[-1] >= len(classes):
            raise errors.wrong(f"The labels of {name}", f"be numbers below the {len(classes)} named classes", known[-1])
        named, numbers = tuple(classes), known[numbers]
    else:
        named = tuple(str(label) for label in known)
    if len(known) < 2:
        raise errors.InputError(f"{name} must have at least two classes. It has {len(known)}.")
    return Raw(x, numbers[: len(y)], test_x, numbers[len(y) :], named)


def held_out(y: Array) -> Array:
    """Which samples are kept for testing where there is no test set: every fifth of a class, and not its only one."""
    held = np.zeros(len(y), bool)
    for label in np.unique(y):
        mine = np.flatnonzero(y == label)
        held[mine[::HELD_OUT]] = len(mine) > 1
    return held


def samples(name: str, x: Array) -> Array:
    """Vectors (n, d) or images (n, c, h, w), as bytes or as floats in [0, 1]."""
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    if x.ndim not in (2, 4) or not x.size:
        raise errors.wrong(f"The samples of {name}", "be vectors (n, d) or images (n, c, h, w)", x.shape)
    if x.dtype == np.uint8:
        return x
    if x.dtype.kind not in "fiu":
        raise errors.wrong(f"The samples of {name}", "be bytes or floats", str(x.dtype))
    with np.errstate(over="ignore"):  # what is too large becomes infinite
        floats = x.astype(np.float32)
    if not np.isfinite(floats).all():
        raise errors.InputError(f"The samples of {name} must be finite. Some are not.")
    if x.ndim == 4 and (floats.min() < 0 or floats.max() > 1):
        values = f"{floats.min():g} to {floats.max():g}"
        if x.dtype.kind == "f":
            raise errors.wrong(f"Images of {name} as floats", "be in [0, 1]", values)
        # They are not brought to uint8 here: whether 1 is white or nearly black is known to their owner alone.
        raise errors.wrong(f"Images of {name} as whole numbers", "be uint8", f"{x.dtype}, {values}")
    return floats


def labels(name: str, y: Array, count: int) -> Array:
    """One whole number or text for each sample."""
    if y.shape not in ((count,), (count, 1)):
        raise errors.wrong(f"The labels of {name}", f"be one for each of the {count} samples", y.shape)
    if y.dtype.kind not in "iuUb":
        raise errors.wrong(f"The labels of {name}", "be whole numbers or texts", str(y.dtype))
    return y.reshape(count).astype(np.int64 if y.dtype.kind == "u" else y.dtype)  # what unsigned and signed share


def dataset(train: Any, test: Any = None, name: str = "arrays", classes: Sequence[str] | None = None) -> Dataset:
    """Make a dataset of your own in Python.

    Parameters
    ----------
    train, test
        A pair (x, y) of arrays or tensors, or a map-style dataset that gives one such pair for each index. Without a
        test set every fifth sample of a class is kept for testing.
    name
        What reports call it.
    classes
        The names of the classes where labels are numbers.

    Examples
    --------
    >>> from evenhand.datasets import dataset
    >>> dataset(([[0.0], [1.0], [0.1], [0.9]], ["low", "high", "low", "high"]))
    Dataset(arrays: 2 + 2 samples of 2 classes)
    """
    held = (None, None) if test is None else _pair(test)
    raw = gather(name, *_pair(train), held[0], held[1], classes)
    x, y, test_x, test_y = (
        torch.from_numpy(np.ascontiguousarray(array)) for array in (raw.train_x, raw.train_y, raw.test_x, raw.test_y)
    )
    return Dataset(name, x, y, test_x, test_y, raw.classes)


def _pair(given: Any) -> tuple[Array, Array]:
    if isinstance(given, tuple | list) and len(given) == 2:
        x, y = given
    elif hasattr(given, "__getitem__") and hasattr(given, "__len__"):
        pairs = [given[number] for number in range(len(given))]
        if any(not isinstance(pair, tuple | list) or len(pair) != 2 for pair in pairs):
            raise errors.wrong("A dataset by numbers", "give a pair (x, y) for each number", pairs[0])
        x, y = [_array(sample) for sample, _ in pairs], [label for _, label in pairs]
    else:
        raise errors.wrong("A dataset", "be a pair (x, y) or have samples by their numbers", given)
    return _array(x), _array(y)


def _array(values: Any) -> Array:
    """An array of what holds numbers; a tensor may have gradients, or be elsewhere."""
    try:
        return np.asarray(values.detach().cpu() if isinstance(values, torch.Tensor) else values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise errors.InputError(f"Samples and labels must make arrays, all of one shape: {error}.") from None
