"""Datasets: known ones by their names, your own by `folder:`, `npz:` and `hf:`, or as arrays in Python."""

from evenhand.datasets.arrays import dataset
from evenhand.datasets.dataset import Dataset, by_class
from evenhand.datasets.loading import SOURCES, known, load

__all__ = ["SOURCES", "Dataset", "by_class", "dataset", "known", "load"]
