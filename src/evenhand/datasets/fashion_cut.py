"""The embedded dataset `fashion-cut`: 500 + 150 images of each of the ten classes of Fashion-MNIST."""

from functools import cache
from importlib.resources import files

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from evenhand.datasets.dataset import Dataset

CLOTHES = ("T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
SIDE, COLUMNS = 28, 50


@cache
def fashion_cut() -> Dataset:
    """Load the embedded images, which scripts/cut_fashion.py cut out of Fashion-MNIST."""
    (train_x, train_y), (test_x, test_y) = _read_sheet("train"), _read_sheet("test")
    return Dataset("fashion-cut", train_x, train_y, test_x, test_y, CLOTHES)


def _read_sheet(split: str) -> tuple[Tensor, Tensor]:
    """Cut a sheet into its images: 50 in a row, one class after the other."""
    with (files("evenhand.datasets") / "embedded" / f"{split}.png").open("rb") as file:
        pixels = np.asarray(Image.open(file))
    images = pixels.reshape(-1, SIDE, COLUMNS, SIDE).transpose(0, 2, 1, 3).reshape(-1, 1, SIDE, SIDE)
    labels = torch.arange(len(CLOTHES)).repeat_interleave(len(images) // len(CLOTHES))
    return torch.from_numpy(np.ascontiguousarray(images)), labels
