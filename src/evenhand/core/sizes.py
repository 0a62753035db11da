"""The sizes of a step, which determine its cost: 3 units to learn a sample, 1 for a forward pass."""

from typing import NamedTuple


class Sizes(NamedTuple):
    """How many samples a step learns and replays, and how many views of each it learns from.

    The defaults are those for which C_D is documented.
    """

    batch: int = 10
    replay: int = 10
    views: int = 1

    def learned(self, samples: int) -> int:
        """Units for a forward and a backward pass of all views of some samples."""
        return 3 * samples * self.views

    @property
    def er(self) -> int:
        """Units of an ER step."""
        return self.learned(self.batch + self.replay)
