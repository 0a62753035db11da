"""Soundness: whether losses and gradients are finite, asked so that a GPU need not wait."""

import torch
from torch import Tensor

from evenhand import errors


class Soundness:
    """Heeds every loss and gradient before the weights follow it.

    Attributes
    ----------
    asking
        Steps between two questions whether all was finite: 1 on a CPU; more on a GPU, where an answer has to be waited
        for.
    """

    def __init__(self, device: torch.device) -> None:
        self.asking = 1 if device.type == "cpu" else 100
        self._unsound: Tensor | None = None
        self._last: tuple[int, Tensor, Tensor] | None = None

    def heed(self, step: int, loss: Tensor, norm: Tensor) -> None:
        """Take note of a loss and the norm of its gradient; raise if it is time to ask and one was not finite."""
        unsound = ~torch.isfinite(loss + norm)
        self._unsound = unsound if self._unsound is None else self._unsound | unsound
        self._last = step, loss, norm
        if step % self.asking == 0:
            self.ask()

    def ask(self) -> None:
        """Raise if something was not finite since the last question; also before anything is told, tested or saved."""
        unsound, self._unsound = self._unsound, None
        if self._last is None or unsound is None or not unsound:
            return
        step, loss, norm = self._last
        if self.asking == 1:
            when, kept = f"At step {step + 1}", "were not updated with it"
        else:
            when = f"Within {self.asking} steps to {step + 1}"
            kept = "are those after it: go back to the last saved state"
        raise errors.DivergedError(
            f"{when} the loss became {loss.item():g} and its gradient {norm.item():g}, so the "
            f"weights {kept}. A smaller learning rate may help."
        )
