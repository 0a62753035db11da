"""Scoring: which logits are used for learning, replaying and testing. The heart of UER.

    dot_i = w_i . h + b_i                            angle and norm (Eq. 1)
    cos_i = gamma (w_i . h) / (|w_i| |h|)            the angle alone (Eq. 5)

Both share one W. A phase of training may mix their losses, e.g. alpha l(dot) + (1 - alpha) l(cos); a test uses one.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

from evenhand import errors
from evenhand.core.parts import part

if TYPE_CHECKING:
    from torch import Tensor

Form = Literal["dot", "cos"]
Phase = Literal["learn", "replay"]
Couple = Literal["head", "neck", "both"]


@part("evenhand.scoring.Mix")
class Mix:
    """The weight of the loss on each form of the logits."""

    dot: float = 0.0
    cos: float = 0.0

    def __post_init__(self) -> None:
        errors.number("The weight of 'dot' in a scoring", self.dot, 0)
        errors.number("The weight of 'cos' in a scoring", self.cos, 0)
        if self.dot + self.cos == 0:
            raise errors.wrong("A mix of logits", "give 'dot' or 'cos' a weight above 0", self)

    def __iter__(self) -> Iterator[tuple[Form, float]]:
        """The forms with a weight above 0, and these weights."""
        if self.dot:
            yield "dot", self.dot
        if self.cos:
            yield "cos", self.cos

    def expect(self, loss: Callable[[Form], "Tensor"]) -> "Tensor":
        """The sum over forms of weight * loss(form): the one place where dot and cos meet."""
        first, *others = [weight * loss(form) for form, weight in self]
        return first + others[0] if others else first


@part("evenhand.scoring.Scoring")
class Scoring:
    """Which logits each phase uses; UER is Scoring(Mix(cos=1), Mix(dot=alpha, cos=1 - alpha), "dot").

    `couple` says which linear layers follow the scoring: the head, the neck before it, or both; the others stay dot.
    """

    learn: Mix
    replay: Mix
    test: Form
    couple: Couple = "head"

    def __post_init__(self) -> None:
        for name in ("learn", "replay"):
            if not isinstance(mix := getattr(self, name), Mix):
                raise errors.wrong(f"The '{name}' field of a scoring", "be a Mix, e.g. Mix(dot=1)", mix)
        errors.choice("The 'test' form of a scoring", self.test, ("dot", "cos"))
        errors.choice("The 'couple' field of a scoring", self.couple, ("head", "neck", "both"))


DOT = Scoring(Mix(dot=1), Mix(dot=1), "dot")
COS = Scoring(Mix(cos=1), Mix(cos=1), "cos")
