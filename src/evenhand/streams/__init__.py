"""Streams: datasets, and the orders in which they come."""

from evenhand.streams import fashion
from evenhand.streams.dataset import LOADERS, Dataset, load
from evenhand.streams.stream import ORDERS, Stage, Step, Stream

__all__ = ["LOADERS", "ORDERS", "Dataset", "Stage", "Step", "Stream", "fashion", "load"]
