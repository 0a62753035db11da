"""Streams: a dataset in the order in which its samples arrive."""

from evenhand.streams.orders import ORDERS, canonical, resolve
from evenhand.streams.plan import Order, Plan, Stage
from evenhand.streams.stream import Step, Stream

__all__ = ["ORDERS", "Order", "Plan", "Stage", "Step", "Stream", "canonical", "resolve"]
