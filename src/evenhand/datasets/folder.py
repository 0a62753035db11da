"""Your own images: a folder with one sub-folder for each class, with or without a split of its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenhand import errors
from evenhand.datasets import archives, arrays
from evenhand.datasets.dataset import Dataset
from evenhand.datasets.encoded import Encoded, Listen
from evenhand.datasets.prepared import Raw, prepared

ENDINGS = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
TESTS = ("test", "val", "valid", "validation")
Classes = Sequence[tuple[str, list[Path]]]  # the images of each class


def load(path: Path, listen: Listen, size: int | None = None, skip_bad: bool = False) -> Dataset:
    """Load images by class.

    The folder holds `train/CLASS/IMAGE` and `test/CLASS/IMAGE` (or val, valid, validation), or just `CLASS/IMAGE`: then
    every fifth image of a class, in the order of their names, is kept for testing.
    """
    if not path.is_dir():
        raise errors.InputError(f"There is no folder {path}.")
    options = {"size": size, "skip_bad": skip_bad}
    return prepared(f"folder:{path}", path, files(path), lambda: read(path, size, skip_bad), listen, options)


def files(path: Path) -> list[Path]:
    """All images below a folder."""
    found = [file for file in archives.walk(path) if file.suffix.lower() in ENDINGS]
    if not found:
        raise errors.InputError(f"There are no images in {path}: one sub-folder for each class is expected.")
    return found


def read(path: Path, size: int | None, skip_bad: bool) -> Raw:
    """List the images of both splits."""
    folders = by_name(path)
    tests = [name for name in TESTS if name in folders]
    if "train" in folders and tests:
        train, test = by_class(folders["train"]), by_class(folders[tests[0]])
        if set(train) != set(test):
            strange = min(set(train) ^ set(test))
            raise errors.InputError(f"The class '{strange}' is in only one of {path}/train and {path}/{tests[0]}.")
    else:
        whole = by_class(path)
        train = {name: [file for i, file in enumerate(found) if i % arrays.HELD_OUT] for name, found in whole.items()}
        test = {name: found[:: arrays.HELD_OUT] for name, found in whole.items()}
        if few := [name for name, found in whole.items() if len(found) < 2]:
            raise errors.InputError(f"The class '{few[0]}' in {path} has one image, and testing needs a second one.")
    return listed(list(train.items()), list(test.items()), size, skip_bad)


def listed(train: Classes, test: Classes, size: int | None, skip_bad: bool) -> Raw:
    """What a reader returns for images by class; both splits have the same classes in the same order."""
    return Raw(
        _encoded(train, size, skip_bad),
        _labels(train),
        _encoded(test, size, skip_bad),
        _labels(test),
        tuple(name for name, _ in train),
    )


def _encoded(classes: Classes, size: int | None, skip_bad: bool) -> Encoded:
    paths = [file for _, found in classes for file in found]
    return Encoded([str(file) for file in paths], lambda number: paths[number].read_bytes(), size, skip_bad)


def _labels(classes: Classes) -> "np.ndarray[Any, Any]":
    return np.repeat(np.arange(len(classes)), [len(found) for _, found in classes])


def by_class(path: Path) -> dict[str, list[Path]]:
    """The images of each sub-folder, in the order of their names."""
    found = {
        name: [file for file in archives.walk(folder) if file.suffix.lower() in ENDINGS]
        for name, folder in by_name(path).items()
    }
    if empty := [name for name, images in found.items() if not images]:
        raise errors.InputError(f"The folder of the class '{empty[0]}' in {path} holds no images.")
    if len(found) < 2:
        raise errors.InputError(f"{path} must hold a sub-folder for each of at least two classes. Found {len(found)}.")
    return found


def by_name(path: Path) -> dict[str, Path]:
    """The sub-folders that are not hidden, in the order of their names."""
    return {folder.name: folder for folder in sorted(path.iterdir()) if folder.is_dir() and folder.name[0] != "."}
