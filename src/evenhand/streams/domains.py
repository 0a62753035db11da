"""The order domains: the same classes under changing conditions, pure functions of sample, row and seed."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from evenhand import errors
from evenhand.core import draws, inputs
from evenhand.streams.plan import Plan, Stage

DOMAINS = ("plain", "dark", "noise", "blur", "bright", "faint")


@dataclass(frozen=True)
class Domain:
    """One condition."""

    kind: str  # one of `DOMAINS`
    strength: float  # 0 changes nothing, 1 is plain to see
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
        """Draw normal noise from one generator per sample, so that it does not depend on the batch."""
        generators = [draws.generator(self.seed, f"noise/{split}/{row}") for row in rows.tolist()]
        return torch.stack([torch.randn(x.shape[1:], generator=generator) for generator in generators])


def faint(x: Tensor, strength: float) -> Tensor:
    """Move all values towards the image's mean."""
    mean = x.mean((1, 2, 3), keepdim=True)
    return mean + (x - mean) * 0.35**strength


def blur(x: Tensor, strength: float) -> Tensor:
    """Blur with a normal kernel as wide as a twenty-fifth of the image, repeating the border."""
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


@dataclass(frozen=True)
class DomainIncremental:
    """The same classes under changing conditions; each stage has its share of every class's samples."""

    kinds: str = ""  # the conditions of the stages, comma-separated; if empty, `DOMAINS` in turn
    strength: float = 1  # as that of a `Domain`

    def __post_init__(self) -> None:
        errors.number("The 'strength' of domains", self.strength, 0, 2)
        errors.text("The 'kinds' of domains", self.kinds)
        for kind in self._kinds():
            if kind not in DOMAINS:
                raise errors.unknown("kind of domain", kind, DOMAINS)

    @property
    def stages(self) -> int:
        """The number of stages unless another is requested."""
        return len(self._kinds())

    def __call__(self, plan: Plan) -> list[Stage]:
        if len(plan.dataset.shape) != 3:
            raise errors.InputError(f"The order domains needs images, but {plan.dataset.name} holds vectors.")
        inputs.bounded(plan.dataset.train_x)
        inputs.bounded(plan.dataset.test_x)
        kinds = self._kinds()
        if self.kinds and plan.stages != len(kinds):
            raise errors.wrong("The number of 'stages'", f"be {len(kinds)}, one for each kind", plan.stages)
        if plan.stages > len(kinds):
            raise errors.wrong("The number of 'stages'", f"be at most {len(kinds)} in the order domains", plan.stages)
        classes = tuple(torch.randperm(len(plan.train), generator=plan.shuffle).tolist())
        shares = [plan.shuffled(plan.train[c]).tensor_split(plan.stages) for c in classes]
        brought = [plan.shuffled(torch.cat([share[stage] for share in shares])) for stage in range(plan.stages)]
        domains = [Domain(kind, self.strength, plan.seed) for kind in kinds]
        return [plan.stage(classes, rows, domain=domain) for rows, domain in zip(brought, domains, strict=False)]

    def _kinds(self) -> list[str]:
        return [kind.strip() for kind in self.kinds.split(",")] if self.kinds else list(DOMAINS)
