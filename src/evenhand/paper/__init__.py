"""The tables and figures of the UER paper: definitions, missing runs, and comparison with the published numbers."""

from evenhand.paper.definitions import Item, all_items, load_item
from evenhand.paper.rendering import Rendering
from evenhand.paper.selection import select

__all__ = ["Item", "Rendering", "all_items", "load_item", "select"]
