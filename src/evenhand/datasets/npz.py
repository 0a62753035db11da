"""Custom arrays in an .npz file."""

import zipfile
from pathlib import Path

import numpy as np

from evenhand import errors
from evenhand.datasets.arrays import raw_arrays
from evenhand.datasets.dataset import Dataset
from evenhand.datasets.decoding import Progress
from evenhand.datasets.prepared import RawData, load_prepared

NAMES = (("x_train", "y_train", "x_test", "y_test"), ("train_x", "train_y", "test_x", "test_y"))
MAX_BYTES = 1 << 34  # of one array; more is a mistake or an attack


def load_npz(path: Path, progress: Progress) -> Dataset:
    """Load an .npz file with x_train, y_train, x_test and y_test, or with x and y; `classes` may name the classes.

    Samples are vectors (n, d) or images (n, c, h, w), (n, h, w, c) or (n, h, w), as uint8 or as floats in [0, 1];
    labels are whole numbers or strings. Without a test set, every fifth sample of a class is held out for testing.
    """
    if not path.is_file():
        raise errors.InputError(f"There is no file {path}.")
    return load_prepared(f"npz:{path}", path, [path], lambda: read_npz(path), progress)


def read_npz(path: Path) -> RawData:
    """Read the arrays of an .npz file."""
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
            x, y, test_x, test_y = (arrays[name] for name in names)
            return raw_arrays(str(path), x, y, test_x, test_y, classes)
    if {"x", "y"} <= set(arrays):
        return raw_arrays(str(path), arrays["x"], arrays["y"], None, None, classes)
    found = ", ".join(sorted(arrays)) or "nothing"
    raise errors.InputError(f"{path} must hold {', '.join(NAMES[0])}, or x and y. It holds {found}.")
