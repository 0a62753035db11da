"""Streams: the orders in which a dataset can come."""

from evenhand.streams.stream import ORDERS, Stage, Step, Stream

__all__ = ["ORDERS", "Stage", "Step", "Stream"]
