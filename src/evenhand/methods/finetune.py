"""FINE-TUNE: learn the stream as it comes, and keep nothing.

ER, but without a memory; the floor that every method has to clear:

    L = E_{B}[l(p(x), y)]                                                              (Eq. 2)

Cost: 3 units for each of 10 samples, C_D = 0.5.
"""

from evenhand.core.batch import Batch
from evenhand.core.learner import Learner
from evenhand.core.method import Method
from evenhand.core.parts import part
from evenhand.core.registry import register
from evenhand.methods.er import er


@part("evenhand.methods.finetune.RecallNothing")
class RecallNothing:
    """No replay."""

    def __call__(self, learner: Learner, batch: Batch) -> Batch | None:
        return None


@part("evenhand.methods.finetune.KeepNothing")
class KeepNothing:
    """No memory."""

    def __call__(self, learner: Learner, batch: Batch) -> None:
        return


@register(
    cost=lambda sizes: sizes.learned(sizes.batch),
    exempt={"learns": "it is the floor that others are measured against"},
)
def finetune() -> Method:
    """Learn the stream as it comes and keep nothing: the lower bound."""
    return er().but(retrieval=RecallNothing(), storage=KeepNothing())
