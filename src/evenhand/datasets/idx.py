"""MNIST and Fashion-MNIST, from their four IDX files, packed with gzip or not."""

import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np

from evenhand import errors
from evenhand.datasets import archives, fetch
from evenhand.datasets.decoding import Array, Progress
from evenhand.datasets.prepared import RawData
from evenhand.datasets.source import Fetcher, Source

SIDE = 28
FILES = {split: (f"{split}-images-idx3-ubyte", f"{split}-labels-idx1-ubyte") for split in ("train", "t10k")}
MAX_BYTES = 1 << 28  # of one file; the largest of the four has 47 million
DIGITS = tuple("0123456789")
CLOTHES = ("T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


def read_idx(path: Path, classes: tuple[str, ...]) -> RawData:
    """Read a folder with the four files."""
    with archives.open_tree(path) as tree:
        return RawData(*_read_split(tree, "train"), *_read_split(tree, "t10k"), classes)


def _read_split(tree: archives.Tree, split: str) -> tuple[Array, Array]:
    images, labels = FILES[split]
    x, y = _read_array(tree, images, 3), _read_array(tree, labels, 1)
    if len(x) != len(y):
        raise errors.wrong(f"The number of labels in {tree.path / labels}", f"be {len(x)}, one per image", len(y))
    return x[:, None], y


def _read_array(tree: archives.Tree, name: str, rank: int) -> Array:
    """Read two zero bytes, the type (8: bytes), the rank, that many sizes of four bytes each, then the values."""
    packed = f"{name}.gz" in tree.files
    path = tree.path / (f"{name}.gz" if packed else name)
    content = _unpacked(path, tree.read(path.name)) if packed else tree.read(name)
    start = 4 + 4 * rank
    if len(content) < start or content[:4] != bytes([0, 0, 8, rank]):
        raise errors.InputError(f"{path} is damaged: it does not begin as an IDX file of rank {rank}.")
    shape = [int(size) for size in np.frombuffer(content, ">u4", rank, offset=4)]
    sizes = " x ".join(map(str, shape))
    if len(content) - start != np.prod(shape, dtype=object):
        raise errors.InputError(f"{path} is damaged: its header says {sizes}, but it has {len(content) - start} bytes.")
    if rank == 3 and shape[1:] != [SIDE, SIDE]:
        raise errors.wrong(f"The images in {path}", f"be {SIDE} x {SIDE}", sizes)
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _unpacked(path: Path, content: bytes) -> bytes:
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    with suppress(zlib.error):
        plain = unpacker.decompress(content, MAX_BYTES)
        if unpacker.eof:
            return plain
    raise archives.DamagedError(f"{path} is damaged or incomplete.")


def fetch_from_debian(home: Path, progress: Progress) -> None:
    """Take Fashion-MNIST out of Debian's package dataset-fashion-mnist, without root."""
    with fetch.package("apt-get download dataset-fashion-mnist && dpkg -x *.deb unpacked", progress) as folder:
        files = (folder / "unpacked/usr/share/datasets/fashion-mnist").glob("*.gz")
        fetch.write_folder(home, "fashion-mnist", {file.name: file.read_bytes() for file in files})


def _official(base: str, folder: str, hashes: str) -> Fetcher:
    names = [f"{name}.gz" for pair in FILES.values() for name in pair]
    return fetch.official(base, dict(zip(names, (f"md5:{digits}" for digits in hashes.split()), strict=True)), folder)


MNIST = Source(
    name="mnist",
    title="MNIST: handwritten digits",
    shape=(1, SIDE, SIDE),
    classes=10,
    counts=(60_000, 10_000),
    paths=("mnist", "MNIST/raw", "MNIST"),
    read=lambda path: read_idx(path, DIGITS),
    origins={
        "official": _official(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "mnist",
            "f68b3c2dcbeaaa9fbdd348bbdeb94873 d53e105ee54ea40749a09fcbcd1e9432 "
            "9fb629c4189551a2d022fa330f9573f3 ec29112dd5afa0611ce80d1b7f02629c",
        )
    },
)
FASHION = Source(
    name="fashion-mnist",
    title="Fashion-MNIST: grey pictures of clothes",
    shape=(1, SIDE, SIDE),
    classes=10,
    counts=(60_000, 10_000),
    paths=("fashion-mnist", "FashionMNIST/raw", "FashionMNIST"),
    read=lambda path: read_idx(path, CLOTHES),
    origins={
        "official": _official(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "fashion-mnist",
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d 25c81989df183df01b3e8a0aad5dffbe "
            "bef4ecab320f06d8554ea6380940ec79 bb300cfdad3c16e7a12a480ee83cd310",
        ),
        "debian": fetch_from_debian,
    },
    digest="47773364131f4e93235c55f9ab55deaff854c0b622e915c757a7b02f66c74919",
)
