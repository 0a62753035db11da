"""Hugging Face datasets: saved on disk (`save_to_disk`, Arrow files) or as Parquet, read with pyarrow."""

import json
import re
from collections import Counter
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from evenhand import errors
from evenhand.datasets import archives
from evenhand.datasets.arrays import SPLITS, hold_out
from evenhand.datasets.decoding import Array
from evenhand.datasets.prepared import RawData

IMAGES = ("Image", ("image", "img"))  # the type of a column, and its usual names
LABELS = ("ClassLabel", ("label", "labels", "fine_label"))
TABLES = (".arrow", ".parquet")
CACHE = "cache-*.arrow"  # `datasets` caches what it computed beside the data, which would count rows twice


def find_tables(path: Path) -> list[Path]:
    """Return the Arrow and Parquet files of a folder, or one such file; there must be some."""
    files = [file for file in archives.walk(path) if file.suffix in TABLES and (file == path or not file.match(CACHE))]
    if not path.exists() or not files:
        raise errors.InputError(f"There are no .arrow or .parquet files in {path}.")
    return files


def read_hugging_face(path: Path, columns: str = "") -> RawData:
    """Read the images and labels of both splits, from two `columns` if these are named, e.g. "photo,animal".

    The split is a word in the name of a file or of its folder: train or training, and test, testing, validation, valid
    or val. Either all files name one, or none does. Without a second split, every fifth sample of a class is held out
    for testing.
    """
    named = [name.strip() for name in columns.split(",")] if columns else []
    if columns and len(list(filter(None, named))) != 2:
        raise errors.wrong("--columns", "name the columns of images and labels, e.g. photo,animal", columns)
    splits: dict[str, list[Path]] = {}
    files = find_tables(path)
    for file in files:
        splits.setdefault(_split(file.relative_to(path)), []).append(file)
    if "" in splits and len(splits) > 1:
        then = "Add a word such as train or test to its name, or move it elsewhere."
        raise errors.InputError(f"{splits[''][0]} names no split, but other files in {path} do. {then}")
    test = next((name for name in ("test", "validation") if name in splits), None)
    if len(splits) > 1 and "train" not in splits:
        raise errors.InputError(f"{path} has the splits {' and '.join(sorted(splits))}, but none to train on.")
    images, labels, classes = _columns(path, splits.get("train") or files, named)
    both = test is not None and "train" in splits
    test_images, test_labels, test_classes = _columns(path, splits[str(test)], named) if both else ([], [], ())
    _check_alike(splits[str(test)][0] if both else path, classes, test_classes)
    numbers, classes = _numbered(path, [*labels, *test_labels], classes)
    y, test_y = numbers[: len(labels)], numbers[len(labels) :]
    if not both:
        if single := [number for number, count in Counter(y.tolist()).items() if count == 1 and number < len(classes)]:
            what = f"The class '{classes[single[0]]}' in {path}"
            raise errors.InputError(f"{what} must have at least two images, one for testing. It has 1.")
        images, y, test_images, test_y = hold_out(images, y)
    train_x, test_x = (
        [(f"{split} image {row} of {path}", content) for row, content in enumerate(contents)]
        for split, contents in (("Training", images), ("Test", test_images))
    )
    return RawData(train_x, y, test_x, test_y, classes)


def _numbered(path: Path, labels: list[Any], classes: tuple[str, ...]) -> tuple[Array, tuple[str, ...]]:
    """Labels as numbers of the classes; unless the files declare these, they are the labels themselves, sorted."""
    if classes:
        if any(type(label) is not int or not 0 <= label < 1 << 31 for label in labels):
            raise errors.InputError(f"The labels of {path} must be whole numbers of at least 0.")
        numbers = np.array(labels, np.int64)
    else:
        if {type(label) for label in labels} not in ({int}, {str}, {bool}):
            raise errors.InputError(f"The labels of {path} must all be whole numbers, or all be strings.")
        found = sorted(set(labels))
        number_of = {label: number for number, label in enumerate(found)}
        numbers, classes = np.array([number_of[label] for label in labels], np.int64), tuple(map(str, found))
    if len(classes) < 2:
        raise errors.InputError(f"{path} must have at least two classes. It has {len(classes)}.")
    return numbers, classes


def _split(file: Path) -> str:
    """Return the split that is a word in the name of a file or of one of its folders; empty if there is none."""
    for part in reversed(file.parts):
        for word in re.split("[^a-z]+", part.lower()):
            if word in SPLITS:
                return SPLITS[word]
    return ""


def _columns(path: Path, files: list[Path], named: list[str]) -> tuple[list[bytes], list[Any], tuple[str, ...]]:
    """Return the encoded images, their labels, and the names of the classes if the files declare them."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise errors.missing("Hugging Face datasets need", "pyarrow", "tables") from None
    images: list[Any] = []
    labels: list[Any] = []
    classes: tuple[str, ...] = ()
    for file in files:
        try:
            if file.suffix == ".parquet":
                table = pyarrow.parquet.read_table(file)
            else:
                table = pyarrow.ipc.open_stream(file.read_bytes()).read_all()
            table.validate(full=True)  # pyarrow would follow offsets outside the file
            facts = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
            features = facts.get("info", {}).get("features", {})
            image, label = named or (_column(file, table.column_names, features, *kind) for kind in (IMAGES, LABELS))
            for name in {image, label} - {*table.column_names}:
                raise errors.unknown(f"column of {file}", name, table.column_names)
            images += table.column(image).to_pylist()
            labels += table.column(label).to_pylist()
            declared = tuple(map(str, features.get(label, {}).get("names", ())))
            _check_alike(file, classes, declared)
            classes = classes or declared
        except errors.EvenhandError:
            raise
        except Exception:  # a broken table can raise nearly anything
            raise errors.InputError(f"{file} is damaged: it is not a complete table.") from None
    if not labels:
        raise errors.InputError(f"{path} must hold images and labels. It has no rows.")
    contents: list[Any] = [image.get("bytes") if isinstance(image, dict) else image for image in images]
    if missing := [row for row, content in enumerate(contents) if not isinstance(content, bytes)]:
        raise errors.InputError(f"{path} must contain the bytes of its images. Row {missing[0]} does not.")
    return contents, labels, classes


def _check_alike(file: Path, known: tuple[str, ...], declared: tuple[str, ...]) -> None:
    """Raise if a file numbers its classes in another way than those before it."""
    if known and declared and known != declared:
        unlike = next((a, b) for a, b in zip_longest(known, declared, fillvalue="nothing") if a != b)
        raise errors.InputError(
            f"{file} declares other classes than the files before it, or in another order: '{unlike[1]}' instead of "
            f"'{unlike[0]}'. Encode the labels of all files together."
        )


def _column(file: Path, columns: list[str], features: dict[str, Any], kind: str, usual: tuple[str, ...]) -> str:
    """Return the column that is declared with this type, or that has a usual name."""
    declared = [name for name in columns if features.get(name, {}).get("_type") == kind]
    if candidates := declared or [name for name in usual if name in columns]:
        return candidates[0]
    then = "Name the columns of images and labels, e.g. --columns photo,animal."
    raise errors.InputError(f"{file} has no column of type {kind}. It has {', '.join(columns)}. {then}")
