"""Evenhand: online continual learning that treats old and new classes with an even hand.

>>> from evenhand import Learner
>>> from evenhand.backbones import ReducedResNet18
>>> Learner(ReducedResNet18((3, 32, 32)), method="uer", memory=2000)
Learner(0 classes, 0 steps, Memory(0 of 2000 slots))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from evenhand.core.batch import Batch, Losses
    from evenhand.core.learner import Learner
    from evenhand.core.memory import Memory
    from evenhand.core.method import Method
    from evenhand.core.network import DualLinear, Network
    from evenhand.core.parts import part
    from evenhand.core.registry import register, resolve
    from evenhand.core.scoring import Mix, Scoring
    from evenhand.datasets import Dataset
    from evenhand.errors import EvenhandError
    from evenhand.streams import Stream

# Names are imported when first used, so that `evenhand --help` need not wait for torch.
_HOMES = {
    "Batch": "core.batch",
    "Dataset": "datasets",
    "DualLinear": "core.network",
    "EvenhandError": "errors",
    "Learner": "core.learner",
    "Losses": "core.batch",
    "Memory": "core.memory",
    "Method": "core.method",
    "Mix": "core.scoring",
    "Network": "core.network",
    "Scoring": "core.scoring",
    "Stream": "streams",
    "part": "core.parts",
    "register": "core.registry",
    "resolve": "core.registry",
}

__all__ = [
    "Batch",
    "Dataset",
    "DualLinear",
    "EvenhandError",
    "Learner",
    "Losses",
    "Memory",
    "Method",
    "Mix",
    "Network",
    "Scoring",
    "Stream",
    "part",
    "register",
    "resolve",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"evenhand.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'evenhand' has no attribute {name!r}")
