"""The embedded images: `fashion-cut`, a twelfth of Fashion-MNIST (500 + 150 images of each of its ten classes)."""

from functools import cache
from importlib.resources import files

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from evenhand.datasets.dataset import Dataset

CLASSES = ("T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
SIDE, COLUMNS = 28, 50


@cache
def fashion_cut() -> Dataset:
    """Load the embedded images; scripts/cut_fashion.py tells how they were cut."""
    (train_x, train_y), (test_x, test_y) = _sheet("train"), _sheet("test")
    return Dataset("fashion-cut", train_x, train_y, test_x, test_y, CLASSES)


def _sheet(split: str) -> tuple[Tensor, Tensor]:
    """Take a sheet apart: 50 images a row, class after class."""
    with (files("evenhand.datasets") / "embedded" / f"{split}.png").open("rb") as file:
        pixels = np.asarray(Image.open(file))
    images = pixels.reshape(-1, SIDE, COLUMNS, SIDE).transpose(0, 2, 1, 3).reshape(-1, 1, SIDE, SIDE)
    labels = torch.arange(len(CLASSES)).repeat_interleave(len(images) // len(CLASSES))
    return torch.from_numpy(np.ascontiguousarray(images)), labels
