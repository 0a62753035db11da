"""The paper, reproduced: its tables and figures beside our own runs, and a page about all of them."""

from evenhand.paper.definitions import Item, find, items
from evenhand.paper.rendering import Rendering, render

__all__ = ["Item", "Rendering", "find", "items", "render"]
