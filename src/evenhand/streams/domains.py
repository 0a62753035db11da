"""The conditions of the order `domains`: pure functions of sample, row and seed."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from evenhand.core import draws

DOMAINS = ("plain", "dark", "noise", "blur", "bright", "faint")


@dataclass(frozen=True)
class Domain:
    """One condition."""

    kind: str  # one of `DOMAINS`
    strength: float  # 0 changes nothing, 1 is clearly visible
    seed: int  # of the noise

    def __call__(self, x: Tensor, rows: Tensor, split: str) -> Tensor:
        """Change images (n, c, h, w) that are stored in these rows of a split; uint8 stays uint8."""
        if self.kind == "plain" or self.strength == 0:
            return x
        floats = x.float() / 255 if x.dtype == torch.uint8 else x
        if self.kind == "noise":
            changed = floats + 0.15 * self.strength * self._noise(floats, rows, split)
        else:
            changed = CHANGES[self.kind](floats, self.strength)
        changed = changed.clamp(0, 1)
        return (changed * 255).round().to(torch.uint8) if x.dtype == torch.uint8 else changed.to(x.dtype)

    def _noise(self, x: Tensor, rows: Tensor, split: str) -> Tensor:
        """Draw Gaussian noise from one generator per sample, so that it does not depend on the batch."""
        generators = [draws.generator(self.seed, f"noise/{split}/{row}") for row in rows.tolist()]
        return torch.stack([torch.randn(x.shape[1:], generator=generator) for generator in generators])


def faint(x: Tensor, strength: float) -> Tensor:
    """Move all values towards the image's mean."""
    mean = x.mean((1, 2, 3), keepdim=True)
    return mean + (x - mean) * 0.35**strength


def blur(x: Tensor, strength: float) -> Tensor:
    """Blur with a Gaussian kernel whose sigma is strength / 25 of the image's width, replicating the border."""
    width = strength * x.shape[-1] / 25
    reach = max(1, round(3 * width))
    steps = torch.arange(-reach, reach + 1, dtype=x.dtype)
    kernel = torch.exp(-0.5 * (steps / max(width, 1e-3)) ** 2)
    kernel = kernel / kernel.sum()
    channels = x.shape[1]
    padded = F.pad(x, (reach, reach, reach, reach), mode="replicate")
    across = F.conv2d(padded, kernel.view(1, 1, 1, -1).expand(channels, 1, 1, -1), groups=channels)
    return F.conv2d(across, kernel.view(1, 1, -1, 1).expand(channels, 1, -1, 1), groups=channels)


CHANGES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "dark": lambda x, strength: x - 0.35 * strength,
    "bright": lambda x, strength: x + 0.35 * strength,
    "blur": blur,
    "faint": faint,
}
