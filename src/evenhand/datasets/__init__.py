"""Datasets: known ones by name, custom ones as `folder:`, `npz:` and `hf:` paths or as arrays in Python."""

from evenhand.datasets.arrays import dataset
from evenhand.datasets.dataset import Dataset, rows_by_class
from evenhand.datasets.loading import SOURCES, check_name, load, pinned

__all__ = ["SOURCES", "Dataset", "check_name", "dataset", "load", "pinned", "rows_by_class"]
