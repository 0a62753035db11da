"""MiniImageNet: 100 classes with 600 images of 84 x 84, from image folders, from three pickles, or from CSV splits.

It was made for few-shot learning, with 64, 16 and 20 classes for training, validation and test. Here all 100 are
learned: of each class the first 500 images are for training and the last 100 for testing, unless the folders `train`
and `test` hold the same classes already.
"""

import csv
import io
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from evenhand import errors
from evenhand.datasets import archives, folder, pickles
from evenhand.datasets.prepared import Raw
from evenhand.datasets.source import Layout, Source

SIDE, TRAIN, TEST, CLASSES = 84, 500, 100, 100
SPLITS = ("train", "val", "test")


def read(path: Path) -> Raw:
    """Read a folder in whichever of the three forms it has."""
    with archives.opened(path) as tree:
        tables = [name for name in tree.names if name.endswith((".pkl", ".pickle")) and "/" not in name]
        splits = [f"{split}.csv" for split in SPLITS]
        if tables:
            raw = read_pickles(tree, tables)
        elif all(name in tree.names for name in splits):
            raw = read_csv(tree, splits)
        else:
            raw = read_folders(path)
    return Raw(raw.train_x, raw.train_y, raw.test_x, raw.test_y, raw.classes, raw.notes + _counted(raw))


def read_folders(path: Path) -> Raw:
    """Read CLASS/IMAGE, or the same below train, val and test, where a class may be in one of them or in all."""
    inner = folder.by_name(path)
    splits = {name: folder.by_class(inner[name]) for name in SPLITS if name in inner}
    if {"train", "test"} <= set(splits) and set(splits["train"]) == set(splits["test"]):
        return folder.listed(list(splits["train"].items()), list(splits["test"].items()), SIDE, False)
    whole: dict[str, list[Path]] = {} if splits else folder.by_class(path)
    for split, found in splits.items():
        if twice := set(found) & set(whole):
            raise errors.InputError(f"The class '{min(twice)}' is in {path / split} and in another split as well.")
        whole |= found
    return _cut(dict(sorted(whole.items())))


def read_csv(tree: archives.Tree, splits: list[str]) -> Raw:
    """Read lines of `filename,label`; the images lie in `images`, or beside the lists."""
    whole: dict[str, list[Path]] = {}
    for name in splits:
        try:
            rows = list(csv.reader(io.StringIO("\n".join(tree.lines(name)))))
        except csv.Error:
            rows = []
        if not rows or rows[0] != ["filename", "label"] or any(len(row) != 2 for row in rows):
            raise errors.InputError(
                f"{tree.path / name} must hold lines of filename,label under a heading that says so."
            )
        for file, label in rows[1:]:
            inside = f"images/{file}" if f"images/{file}" in tree.files else file
            if inside not in tree.files:
                raise errors.InputError(f"{tree.path / name} names the image '{file}', and there is none.")
            whole.setdefault(label, []).append(tree.path / inside)
    return _cut(dict(sorted(whole.items())))


def read_pickles(tree: archives.Tree, names: list[str]) -> Raw:
    """Read tables with `image_data` (n, 84, 84, 3) and `class_dict` {class: rows}, or `data` and `labels`."""
    by_class: dict[str, np.ndarray[Any, Any]] = {}
    for name in names:
        path = tree.path / name
        table = pickles.table(tree.read(name), path)
        images = table.get("image_data", table.get("data"))
        if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (SIDE, SIDE, 3):
            raise errors.InputError(f"{path} must hold images of {SIDE} x {SIDE} as bytes, (n, {SIDE}, {SIDE}, 3).")
        rows = _rows(table, path, len(images))
        if twice := set(rows) & set(by_class):
            raise errors.InputError(f"The class '{min(twice)}' is in {path} and in another pickle as well.")
        by_class |= {label: images[found] for label, found in rows.items()}
    _enough({label: len(images) for label, images in by_class.items()})
    classes = sorted(by_class)
    train = np.concatenate([by_class[label][:TRAIN] for label in classes])
    test = np.concatenate([by_class[label][TRAIN:][-TEST:] for label in classes])
    counts = [(len(by_class[label][:TRAIN]), len(by_class[label][TRAIN:][-TEST:])) for label in classes]
    train_y, test_y = (np.repeat(np.arange(len(classes)), sizes) for sizes in zip(*counts, strict=True))
    return Raw(train.transpose(0, 3, 1, 2), train_y, test.transpose(0, 3, 1, 2), test_y, tuple(classes))


def _rows(table: dict[str, Any], path: Path, count: int) -> dict[str, Any]:
    """The rows of each class."""
    named, labels = table.get("class_dict"), table.get("labels")
    if isinstance(named, dict):
        found = {pickles.text(label): rows for label, rows in named.items()}
    elif _flat(labels) and len(labels) == count:
        found = {}
        for row, label in enumerate(labels):
            found.setdefault(pickles.text(label), []).append(row)
    else:
        raise errors.InputError(f"{path} must say the classes of its images, by 'class_dict' or 'labels'.")
    for label, rows in found.items():
        if not _flat(rows) or not all(isinstance(row, int | np.integer) and 0 <= row < count for row in rows):
            raise errors.InputError(f"{path} gives the class '{label}' rows that it does not have.")
    return {label: [int(row) for row in rows] for label, rows in found.items()}


def _flat(values: object) -> TypeGuard[list[Any] | np.ndarray[Any, Any]]:
    return isinstance(values, list) or (isinstance(values, np.ndarray) and values.ndim == 1)


def _cut(whole: dict[str, list[Path]]) -> Raw:
    """The first 500 images of a class for training, the last 100 of the others for testing."""
    _enough({label: len(images) for label, images in whole.items()})
    train = [(label, images[:TRAIN]) for label, images in whole.items()]
    test = [(label, images[TRAIN:][-TEST:]) for label, images in whole.items()]
    return folder.listed(train, test, SIDE, False)


def _enough(counts: dict[str, int]) -> None:
    if len(counts) < 2:
        raise errors.InputError(f"miniimagenet must have at least two classes. It has {len(counts)}.")
    if few := [label for label, count in counts.items() if count <= TRAIN]:
        raise errors.InputError(
            f"Each class of miniimagenet must have more than {TRAIN} images, the last of them for testing. "
            f"'{few[0]}' has {counts[few[0]]}."
        )


def _counted(raw: Raw) -> tuple[str, ...]:
    """Say what is not as usual."""
    usual = (CLASSES, CLASSES * TRAIN, CLASSES * TEST)
    found = (len(raw.classes), len(raw.train_y), len(raw.test_y))
    if found == usual:
        return ()
    words = "{} classes with {} + {} images"
    return (f"This MiniImageNet has {words.format(*found)}, where {words.format(*usual)} are usual.",)


MINI_IMAGENET = Source(
    name="miniimagenet",
    title="MiniImageNet: photographs of a hundred kinds of things, 84 x 84",
    shape=(3, SIDE, SIDE),
    classes=CLASSES,
    counts=(CLASSES * TRAIN, CLASSES * TEST),
    layouts=(Layout(("mini-imagenet", "miniimagenet", "mini_imagenet", "miniImageNet"), read),),
)
