"""Streams: a dataset in the order in which its samples arrive."""

from evenhand.streams.orders import ORDERS, Order, Plan, Stage, canonical, resolve
from evenhand.streams.stream import Step, Stream

__all__ = ["ORDERS", "Order", "Plan", "Stage", "Step", "Stream", "canonical", "resolve"]
