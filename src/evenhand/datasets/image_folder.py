"""Custom images: a folder with one subfolder per class, with or without a train/test split."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenhand import errors
from evenhand.datasets import archives
from evenhand.datasets.arrays import HELD_OUT
from evenhand.datasets.dataset import Dataset
from evenhand.datasets.decoding import EncodedImages, Progress
from evenhand.datasets.prepared import RawData, load_prepared

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
TEST_NAMES = ("test", "val", "valid", "validation")


def load_image_folder(path: Path, progress: Progress, size: int | None = None, skip_bad: bool = False) -> Dataset:
    """Load images by class.

    The folder holds `train/CLASS/IMAGE` and `test/CLASS/IMAGE` (or val, valid, validation), or just `CLASS/IMAGE`:
    then every fifth image of a class, in order of their names, is held out for testing.
    """
    if not path.is_dir():
        raise errors.InputError(f"There is no folder {path}.")
    files = _images(path)
    if not files:
        raise errors.InputError(f"There are no images in {path}. It must hold one subfolder per class.")
    options = {"size": size, "skip_bad": skip_bad}
    return load_prepared(
        f"folder:{path}", path, files, lambda: read_image_folder(path, size, skip_bad), progress, options
    )


def read_image_folder(path: Path, size: int | None, skip_bad: bool) -> RawData:
    """List the images of both splits."""
    folders = subfolders(path)
    tests = [name for name in TEST_NAMES if name in folders]
    if "train" in folders and tests:
        train, test = images_by_class(folders["train"]), images_by_class(folders[tests[0]])
        if set(train) != set(test):
            name = min(set(train) ^ set(test))
            raise errors.InputError(f"The class '{name}' is in only one of {path}/train and {path}/{tests[0]}.")
    else:
        images = images_by_class(path)
        train = {name: [file for i, file in enumerate(files) if i % HELD_OUT] for name, files in images.items()}
        test = {name: files[::HELD_OUT] for name, files in images.items()}
        if single := [name for name, files in images.items() if len(files) < 2]:
            raise errors.InputError(
                f"The class '{single[0]}' in {path} must have at least two images, one for testing. It has 1."
            )
    return raw_images(train, test, size, skip_bad)


def raw_images(
    train: Mapping[str, Sequence[Path]], test: Mapping[str, Sequence[Path]], size: int | None, skip_bad: bool | None
) -> RawData:
    """Return the images of each class as raw data; both splits have the same classes in the same order."""
    return RawData(
        _encoded(train, size, skip_bad),
        class_numbers(train),
        _encoded(test, size, skip_bad),
        class_numbers(test),
        tuple(train),
    )


def class_numbers(images: Mapping[str, Sequence[Any]]) -> "np.ndarray[Any, Any]":
    """Number the classes from 0 and return the class of every image."""
    return np.repeat(np.arange(len(images)), [len(own) for own in images.values()])


def images_by_class(path: Path) -> dict[str, list[Path]]:
    """Return the images of each subfolder, in order of their names."""
    images = {name: _images(folder) for name, folder in subfolders(path).items()}
    if empty := [name for name, files in images.items() if not files]:
        raise errors.InputError(f"The folder of the class '{empty[0]}' in {path} holds no images.")
    if len(images) < 2:
        raise errors.InputError(f"{path} must hold a subfolder for each of at least two classes. Found {len(images)}.")
    return images


def subfolders(path: Path) -> dict[str, Path]:
    """Return the subfolders by name, in order, without hidden ones."""
    return {folder.name: folder for folder in sorted(path.iterdir()) if folder.is_dir() and folder.name[0] != "."}


def _images(path: Path) -> list[Path]:
    return [file for file in archives.walk(path) if file.suffix.lower() in SUFFIXES]


def _encoded(images: Mapping[str, Sequence[Path]], size: int | None, skip_bad: bool | None) -> EncodedImages:
    paths = [file for files in images.values() for file in files]
    return EncodedImages([str(file) for file in paths], lambda index: paths[index].read_bytes(), size, skip_bad)
