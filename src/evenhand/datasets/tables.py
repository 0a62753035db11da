"""Hugging Face datasets: saved on disk (`save_to_disk`, Arrow files) or as Parquet, read with pyarrow."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from evenhand import errors
from evenhand.datasets import archives, arrays
from evenhand.datasets.dataset import Dataset
from evenhand.datasets.encoded import Encoded, Listen
from evenhand.datasets.prepared import Raw, prepared

IMAGES = ("Image", ("image", "img"))  # the kind of a column, and its usual names
LABELS = ("ClassLabel", ("label", "labels", "fine_label"))
TESTS = ("test", "validation", "valid", "val")


def load(path: Path, listen: Listen, size: int | None = None, skip_bad: bool = False) -> Dataset:
    """Load a folder of Arrow or Parquet files, or one such file.

    A split is recognised by a folder or file whose name begins with it: train, and test, validation, valid or val.
    Without a second one every fifth sample of a class is kept for testing.
    """
    files = list(archives.walk(path)) if path.is_dir() else [path]
    tables = [file for file in files if file.suffix in (".arrow", ".parquet")]
    if not path.exists() or not tables:
        raise errors.InputError(f"There are no .arrow or .parquet files in {path}.")
    options = {"size": size, "skip_bad": skip_bad}
    return prepared(f"hf:{path}", path, tables, lambda: read(path, tables, size, skip_bad), listen, options)


def read(path: Path, files: list[Path], size: int | None, skip_bad: bool) -> Raw:
    """Read the images and labels of both splits."""
    splits: dict[str, list[Path]] = {}
    for file in files:
        splits.setdefault(_split(file.relative_to(path.parent)), []).append(file)
    test = next((name for name in TESTS if name in splits), None)
    images, labels, names = _columns(path, splits.get("train") or files)
    if test and "train" in splits:
        test_images, test_labels, _ = _columns(path, splits[test])
    else:
        held = arrays.held_out(labels)
        test_images, test_labels = [images[row] for row in np.flatnonzero(held)], labels[held]
        images, labels = [images[row] for row in np.flatnonzero(~held)], labels[~held]
    if not names and labels.max() >= len(labels):
        raise errors.wrong(
            f"The labels of {path}", "be numbers from 0 on, each of which has an image", int(labels.max())
        )
    classes = names or tuple(str(label) for label in range(int(labels.max()) + 1))
    if len(classes) < 2:
        raise errors.InputError(f"{path} must have at least two classes. It has {len(classes)}.")
    return Raw(
        Encoded([f"Training image {row} of {path}" for row in range(len(images))], images.__getitem__, size, skip_bad),
        labels,
        Encoded(
            [f"Test image {row} of {path}" for row in range(len(test_images))], test_images.__getitem__, size, skip_bad
        ),
        test_labels,
        classes,
    )


def _split(file: Path) -> str:
    """The split that a file or one of its folders is named after."""
    for part in reversed(file.parts):
        for name in ("train", *TESTS):
            if part.lower().startswith(name):
                return "train" if name == "train" else name
    return ""


def _columns(path: Path, files: list[Path]) -> tuple[list[bytes], "np.ndarray[Any, Any]", tuple[str, ...]]:
    """The encoded images, their labels, and the names of the classes if they are told."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise errors.InputError(
            "Hugging Face datasets need pyarrow. Install it with pip install 'evenhand[tables]'."
        ) from None
    images: list[Any] = []
    labels: list[Any] = []
    names: tuple[str, ...] = ()
    for file in files:
        try:
            if file.suffix == ".parquet":
                table = pyarrow.parquet.read_table(file)
            else:
                table = pyarrow.ipc.open_stream(file.read_bytes()).read_all()
            table.validate(full=True)  # pyarrow would follow offsets that lead anywhere
            facts = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
            features = facts.get("info", {}).get("features", {})
            image, label = (_column(file, table.column_names, features, *kind) for kind in (IMAGES, LABELS))
            images += table.column(image).to_pylist()
            labels += table.column(label).to_pylist()
            names = tuple(map(str, features.get(label, {}).get("names", ())))
        except errors.EvenhandError:
            raise
        except Exception:  # a broken table can raise nearly anything
            raise errors.InputError(f"{file} is damaged: it is no whole table.") from None
    if not labels:
        raise errors.InputError(f"{path} must hold images and labels. It has no rows.")
    contents: list[Any] = [image.get("bytes") if isinstance(image, dict) else image for image in images]
    if missing := [row for row, content in enumerate(contents) if not isinstance(content, bytes)]:
        raise errors.InputError(f"{path} must hold its images themselves. Row {missing[0]} holds none.")
    if any(isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < 1 << 31 for label in labels):
        raise errors.InputError(f"The labels of {path} must be whole numbers from 0 on.")
    return contents, np.array(labels, np.int64), names


def _column(file: Path, columns: list[str], features: dict[str, Any], kind: str, usual: tuple[str, ...]) -> str:
    """The column that is declared as of this kind, or that has a usual name."""
    declared = [name for name in columns if features.get(name, {}).get("_type") == kind]
    if found := declared or [name for name in usual if name in columns]:
        return found[0]
    raise errors.InputError(f"{file} has no column of the kind {kind}. It has {', '.join(columns)}.")
