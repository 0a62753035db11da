"""Divergence: stop when a loss or a gradient is no longer finite, without making a GPU wait at every step."""

import torch
from torch import Tensor

from evenhand import errors


class DivergenceGuard:
    """Records every loss and gradient norm before the update, and raises if one was not finite.

    Attributes
    ----------
    interval
        Steps between two checks: 1 on a CPU; more on a GPU, where reading a value means waiting for it.
    """

    def __init__(self, device: torch.device) -> None:
        self.interval = 1 if device.type == "cpu" else 100
        self._diverged: Tensor | None = None
        self._last: tuple[int, Tensor, Tensor] | None = None

    def record(self, step: int, loss: Tensor, norm: Tensor) -> None:
        """Record a loss and the norm of its gradient, and check them if it is time."""
        diverged = ~torch.isfinite(loss + norm)
        self._diverged = diverged if self._diverged is None else self._diverged | diverged
        self._last = step, loss, norm
        if step % self.interval == 0:
            self.check()

    def check(self) -> None:
        """Raise if something was not finite since the last check; call this before a prediction, a test or a save."""
        diverged, self._diverged = self._diverged, None
        if self._last is None or diverged is None or not diverged:
            return
        step, loss, norm = self._last
        if self.interval == 1:
            when, then = f"At step {step + 1}", "so this step was undone"
        else:
            when = f"Within the {self.interval} steps up to {step + 1}"
            then = "and the weights are no longer usable: go back to the last saved state"
        raise errors.DivergedError(
            f"{when} the loss was {loss.item():g} and its gradient norm {norm.item():g}, {then}. "
            "A smaller learning rate may help."
        )
