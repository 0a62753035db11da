"""Cut the embedded images out of the full Fashion-MNIST.

    python scripts/cut_fashion.py /usr/share/datasets/fashion-mnist

Reads the four original IDX archives (Debian's package dataset-fashion-mnist puts them there), takes the first 500
training and the first 150 test images of every class in their original order, and writes each split as one lossless
greyscale PNG: a sheet of 50 images a row, class after class, so that a label is a position.
"""

import gzip
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

OUT = Path(__file__).parents[1] / "src/evenhand/datasets/embedded"
CLASSES, COLUMNS, SIDE = 10, 50, 28


def idx(path: Path, header: int) -> NDArray[np.uint8]:
    """The bytes of a gzipped IDX file behind its header."""
    return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=header)


def sheet(images: NDArray[np.uint8]) -> Image.Image:
    """Lay (n, 28, 28) images out in rows of 50."""
    rows = images.reshape(-1, COLUMNS, SIDE, SIDE).transpose(0, 2, 1, 3)
    return Image.fromarray(rows.reshape(-1, COLUMNS * SIDE))


def main(source: Path) -> None:
    """Write train.png and test.png."""
    for split, prefix, count in (("train", "train", 500), ("test", "t10k", 150)):
        images = idx(source / f"{prefix}-images-idx3-ubyte.gz", 16).reshape(-1, SIDE, SIDE)
        labels = idx(source / f"{prefix}-labels-idx1-ubyte.gz", 8)
        cut = np.concatenate([images[labels == c][:count] for c in range(CLASSES)])
        sheet(cut).save(OUT / f"{split}.png", optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
