"""Tiny-ImageNet: 200 classes with 500 + 50 images of 64 x 64, from its folder or zip; `val` is the test set."""

from pathlib import Path

import numpy as np

from evenhand import errors
from evenhand.datasets import archives, fetch
from evenhand.datasets.prepared import RawData
from evenhand.datasets.source import Source

SIDE = 64


def read_tiny_imagenet(path: Path) -> RawData:
    """Read train/CLASS/images/IMAGE, and val/images/IMAGE with the classes in val/val_annotations.txt."""
    with archives.open_tree(path) as tree:
        classes = sorted(tree.lines("wnids.txt"))
        number = {name: row for row, name in enumerate(classes)}
        train = sorted(name for name in tree.files if name.startswith("train/") and name.endswith(".JPEG"))
        if not train:
            raise archives.DamagedError(f"{path} is incomplete: it has no images in 'train'.")
        labels = [line.split("\t")[:2] for line in tree.lines("val/val_annotations.txt")]
        if invalid := [row for row in labels if len(row) != 2 or row[1] not in number]:
            raise errors.InputError(f"{path}/val/val_annotations.txt has a line without a known class: {invalid[0]}.")
        if unknown := [name for name in train if name.split("/")[1] not in number]:
            raise errors.InputError(f"{path}/wnids.txt does not name the class of {unknown[0]}.")
        words = dict(line.split("\t", 1) for line in tree.lines("words.txt") if "\t" in line)
        return RawData(
            [tree.entry(name) for name in train],
            np.array([number[name.split("/")[1]] for name in train]),
            [tree.entry(f"val/images/{file}") for file, _ in labels],
            np.array([number[label] for _, label in labels]),
            tuple(words.get(name, name).split(",")[0] for name in classes),
        )


TINY_IMAGENET = Source(
    name="tinyimagenet",
    title="Tiny-ImageNet: photographs of two hundred kinds of things, 64 x 64",
    shape=(3, SIDE, SIDE),
    classes=200,
    counts=(100_000, 10_000),
    paths=("tiny-imagenet-200", "tiny-imagenet-200.zip"),
    read=read_tiny_imagenet,
    origins={
        "official": fetch.official(
            "http://cs231n.stanford.edu/", {"tiny-imagenet-200.zip": "md5:90528d7ca1a48142e341f4ef8d21d0de"}
        )
    },
)
