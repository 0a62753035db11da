"""MiniImageNet: 100 classes with 600 images of 84 x 84, from image folders, pickles or CSV lists.

It was made for few-shot learning, with 64, 16 and 20 classes for training, validation and test. Here all 100 are
learned: the first 500 images of a class are for training and its last 100 for testing, unless the folders `train` and
`test` already hold the same classes.
"""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from evenhand import errors
from evenhand.datasets import archives, pickles
from evenhand.datasets.decoding import Array
from evenhand.datasets.image_folder import Images, images_by_class, labelled, subfolders
from evenhand.datasets.prepared import RawData
from evenhand.datasets.source import Source

SIDE, TRAIN, TEST, CLASSES = 84, 500, 100, 100
SPLITS = ("train", "val", "test")
LISTS = ("train.csv", "val.csv", "test.csv")


def read_mini_imagenet(path: Path) -> RawData:
    """Read a folder in whichever of the three forms it has."""
    with archives.open_tree(path) as tree:
        tables = [name for name in tree.files if name.endswith((".pkl", ".pickle")) and "/" not in name]
        if tables:
            train, test = _cut(_read_pickles(tree, tables))
        elif all(name in tree.files for name in LISTS):
            train, test = _cut(_read_lists(tree))
        else:
            train, test = _read_folders(path)
        (train_x, train_y), (test_x, test_y) = labelled(train), labelled(test)
        if tables:
            train_x, test_x = (np.stack(images).transpose(0, 3, 1, 2) for images in (train_x, test_x))
    usual = (CLASSES, CLASSES * TRAIN, CLASSES * TEST)
    counts = (len(train), len(train_y), len(test_y))
    got, expected = ("{} classes with {} + {} images".format(*numbers) for numbers in (counts, usual))
    notes = () if got == expected else (f"This MiniImageNet has {got} instead of the usual {expected}.",)
    return RawData(train_x, train_y, test_x, test_y, tuple(train), notes)


def _read_folders(path: Path) -> tuple[Images, Images]:
    """List CLASS/IMAGE, or the same below train, val and test."""
    inner = subfolders(path)
    splits = {name: images_by_class(inner[name]) for name in SPLITS if name in inner}
    if {"train", "test"} <= set(splits) and set(splits["train"]) == set(splits["test"]):
        return splits["train"], splits["test"]
    images: Images = {} if splits else images_by_class(path)
    for split, own in splits.items():
        if twice := set(own) & set(images):
            raise errors.InputError(f"The class '{min(twice)}' is in {path / split} and in another split.")
        images |= own
    return _cut(images)


def _read_lists(tree: archives.Tree) -> Images:
    """Read lines of `filename,label`; the images are in `images` or next to the lists."""
    images: Images = {}
    for name in LISTS:
        try:
            rows = list(csv.reader(io.StringIO("\n".join(tree.lines(name)))))
        except csv.Error:
            rows = []
        if not rows or rows[0] != ["filename", "label"] or any(len(row) != 2 for row in rows):
            raise errors.InputError(
                f"{tree.path / name} must hold lines of filename,label below the heading 'filename,label'."
            )
        for file, label in rows[1:]:
            inside = f"images/{file}" if f"images/{file}" in tree.files else file
            if inside not in tree.files:
                raise errors.InputError(f"{tree.path / name} lists the image '{file}', which does not exist.")
            images.setdefault(label, []).append(tree.entry(inside))
    return images


def _read_pickles(tree: archives.Tree, names: list[str]) -> dict[str, Array]:
    """Read `image_data` (n, 84, 84, 3) and `class_dict` {class: rows}, or `data` and `labels`."""
    images: dict[str, Array] = {}
    for name in names:
        path = tree.path / name
        table = pickles.read_dict(tree.read(name), path)
        pixels = table.get("image_data", table.get("data"))
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (SIDE, SIDE, 3):
            raise errors.InputError(f"{path} must hold images as uint8 of shape (n, {SIDE}, {SIDE}, 3).")
        rows = _rows_by_class(table, path, len(pixels))
        if twice := set(rows) & set(images):
            raise errors.InputError(f"The class '{min(twice)}' is in {path} and in another pickle.")
        images |= {label: pixels[own] for label, own in rows.items()}
    return images


def _rows_by_class(table: Mapping[str, Any], path: Path, count: int) -> dict[str, list[int]]:
    by_class, labels = table.get("class_dict"), table.get("labels")
    rows: dict[str, Any] = {}
    if isinstance(by_class, dict):
        rows = {pickles.text(label): own for label, own in by_class.items()}
    elif _is_flat(labels) and len(labels) == count:
        for row, label in enumerate(labels):
            rows.setdefault(pickles.text(label), []).append(row)
    else:
        raise errors.InputError(f"{path} must give the classes of its images in 'class_dict' or 'labels'.")
    for label, own in rows.items():
        if not _is_flat(own) or not all(isinstance(row, int | np.integer) and 0 <= row < count for row in own):
            raise errors.InputError(f"{path} lists rows of the class '{label}' that do not exist.")
    return {label: [int(row) for row in own] for label, own in rows.items()}


def _is_flat(values: object) -> TypeGuard[list[Any] | Array]:
    return isinstance(values, list) or (isinstance(values, np.ndarray) and values.ndim == 1)


def _cut(images: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Take the first 500 images of a class for training, and the last 100 of the others for testing."""
    if len(images) < 2:
        raise errors.InputError(f"miniimagenet must have at least two classes. It has {len(images)}.")
    if few := [label for label, own in images.items() if len(own) <= TRAIN]:
        raise errors.InputError(
            f"Each class of miniimagenet must have more than {TRAIN} images, the last ones for testing. "
            f"'{few[0]}' has {len(images[few[0]])}."
        )
    train = {label: images[label][:TRAIN] for label in sorted(images)}
    return train, {label: images[label][TRAIN:][-TEST:] for label in train}


MINI_IMAGENET = Source(
    name="miniimagenet",
    title="MiniImageNet: photographs of a hundred kinds of things, 84 x 84",
    shape=(3, SIDE, SIDE),
    classes=CLASSES,
    counts=(CLASSES * TRAIN, CLASSES * TEST),
    paths=("mini-imagenet", "miniimagenet", "mini_imagenet", "miniImageNet"),
    read=read_mini_imagenet,
)
