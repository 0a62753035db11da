"""Streams: the orders in which a dataset can come."""

from evenhand.streams.orders import ORDERS, Order, Plan, Stage, canonical, named
from evenhand.streams.stream import Step, Stream

__all__ = ["ORDERS", "Order", "Plan", "Stage", "Step", "Stream", "canonical", "named"]
