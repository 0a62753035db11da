"""The embedded dataset `fashion-cut`: a cut of Fashion-MNIST, for which nothing is downloaded."""

from functools import cache
from importlib.resources import files

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from evenhand.datasets.dataset import Dataset
from evenhand.datasets.idx import CLOTHES, SIDE

NAME = "fashion-cut"
COLUMNS = 50  # images in a row of a sheet


@cache
def read() -> Dataset:
    """Load 500 + 150 images of each class, which scripts/cut_fashion.py cut out of Fashion-MNIST."""
    return Dataset(NAME, *_read_sheet("train"), *_read_sheet("test"), CLOTHES)


def _read_sheet(split: str) -> tuple[Tensor, Tensor]:
    """Cut a sheet into its images: 50 in a row, one class after the other."""
    with (files("evenhand.datasets") / "embedded" / f"{split}.png").open("rb") as file:
        pixels = np.asarray(Image.open(file))
    images = pixels.reshape(-1, SIDE, COLUMNS, SIDE).transpose(0, 2, 1, 3).reshape(-1, 1, SIDE, SIDE)
    labels = torch.arange(len(CLOTHES)).repeat_interleave(len(images) // len(CLOTHES))
    return torch.from_numpy(np.ascontiguousarray(images)), labels
