"""Custom images: a folder with one subfolder per class, with or without a train/test split."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evenhand import errors
from evenhand.datasets import archives
from evenhand.datasets.arrays import SPLITS, hold_out
from evenhand.datasets.decoding import Array
from evenhand.datasets.prepared import RawData

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
Images = dict[str, list[tuple[str, archives.Content]]]  # encoded images by their class


def find_images(path: Path) -> list[Path]:
    """Return all images below a folder, which must be there."""
    if not path.is_dir():
        raise errors.InputError(f"There is no folder {path}.")
    if files := _images(path):
        return files
    raise errors.InputError(f"There are no images in {path}. It must hold one subfolder per class.")


def read_image_folder(path: Path) -> RawData:
    """List the images by class.

    The folder holds `train/CLASS/IMAGE` (or training) and `test/CLASS/IMAGE` (or testing, val, valid, validation), in
    upper or lower case, or just `CLASS/IMAGE`: then every fifth image of a class, in order of their names, is held out
    for testing.
    """
    found: dict[str, Path] = {}
    for name, folder in subfolders(path).items():
        if name.lower() in SPLITS:
            if other := found.get(SPLITS[name.lower()]):
                raise errors.InputError(f"{other} and {folder} are both named like the same split. Merge them.")
            found[SPLITS[name.lower()]] = folder
    training, testing = found.get("train"), found.get("test") or found.get("validation")
    if training and testing:
        train, test = images_by_class(training), images_by_class(testing)
        if set(train) != set(test):
            name = min(set(train) ^ set(test))
            raise errors.InputError(f"The class '{name}' is in only one of {training} and {testing}.")
        return RawData(*labelled(train), *labelled(test), tuple(train))
    if training and _holds_classes(training):
        then = f"Add it, or use folder:{training} to hold out every fifth image of a class."
        raise errors.InputError(f"{training} holds folders instead of images, but there is no {path}/test. {then}")
    if split := next(filter(_holds_classes, found.values()), None):
        raise errors.InputError(f"{split} holds folders instead of images, but there is no {path}/train. Add it.")
    images = images_by_class(path)
    if single := [name for name, own in images.items() if len(own) < 2]:
        raise errors.InputError(
            f"The class '{single[0]}' in {path} must have at least two images, one for testing. It has 1."
        )
    return RawData(*hold_out(*labelled(images)), tuple(images))


def labelled(images: Mapping[str, Collection[Any]]) -> tuple[Any, Array]:
    """Return the images of all classes, one class after the other, and the numbers of their classes."""
    numbers = np.repeat(np.arange(len(images)), [len(own) for own in images.values()])
    return [image for own in images.values() for image in own], numbers


def images_by_class(path: Path) -> Images:
    """Return the images of each subfolder, in order of their names."""
    images: Images = {
        name.encode(errors="replace").decode(): [(str(file), file) for file in _images(folder)]
        for name, folder in subfolders(path).items()
    }
    if empty := [name for name, own in images.items() if not own]:
        raise errors.InputError(f"The folder of the class '{empty[0]}' in {path} holds no images.")
    if len(images) < 2:
        raise errors.InputError(f"{path} must hold a subfolder for each of at least two classes. Found {len(images)}.")
    return images


def subfolders(path: Path) -> dict[str, Path]:
    """Return the subfolders by name, in order, without hidden ones and junk."""
    folders = (folder for folder in sorted(path.iterdir()) if folder.is_dir())
    return {folder.name: folder for folder in folders if folder.name[0] != "." and folder.name != archives.JUNK}


def _holds_classes(folder: Path) -> bool:
    """Whether a folder holds folders and no images, so that it is a split rather than a class."""
    return bool(subfolders(folder)) and not any(_is_image(file) for file in folder.iterdir())


def _images(path: Path) -> list[Path]:
    return [file for file in archives.walk(path) if _is_image(file)]


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in SUFFIXES
