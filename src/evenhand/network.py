"""The network: a trunk that makes features, an optional neck, and a head that grows with the classes."""

import copy
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from evenhand import errors
from evenhand.scoring import Couple, Form

EPSILON = 1e-5  # keeps the gradient of cos bounded where a feature or a row of W vanishes


class DualLinear(nn.Module):
    """A linear layer that reads its input in two forms, by one shared W.

    dot_i = w_i . h + b_i and cos_i = gamma (w_i . h) / (|w_i| |h|), without the bias.
    """

    def __init__(self, dim: int, rows: int = 0, gamma: float = 10.0) -> None:
        super().__init__()
        self.dim = dim
        self.gamma = gamma
        self.weight = nn.Parameter(torch.empty(0, dim))
        self.bias = nn.Parameter(torch.empty(0))
        self.grow(rows)

    def grow(self, count: int, generator: Generator | None = None) -> None:
        """Append rows, each drawn as torch's Linear would: w and b uniform in +-1/sqrt(dim).

        A row is drawn whole, one after the other, so that it does not matter how many arrive at a time. Weight and bias
        are new parameters afterwards, of which an optimizer must be told.
        """
        rows = (torch.rand(count, self.dim + 1, generator=generator) * 2 - 1) / math.sqrt(self.dim)
        rows = rows.to(self.weight)
        self.weight = nn.Parameter(torch.cat([self.weight.detach(), rows[:, :-1]]))
        self.bias = nn.Parameter(torch.cat([self.bias.detach(), rows[:, -1]]))

    def forward(self, h: Tensor, form: Form) -> Tensor:
        """Map h (n, dim) to (n, rows) in the given form."""
        if form == "dot":
            return F.linear(h, self.weight, self.bias)
        w_norm = torch.linalg.vector_norm(self.weight, dim=1) + EPSILON
        h_norm = torch.linalg.vector_norm(h, dim=1, keepdim=True) + EPSILON
        return F.linear(h, self.weight) * (self.gamma / (h_norm * w_norm))


class Network(nn.Module):
    """Trunk, optional neck and head.

    Parameters
    ----------
    trunk
        Any module from inputs (n, ...) to features (n, dim).
    dim
        The length of a feature.
    neck
        Whether a further linear layer with ReLU (dim -> dim) stands before the head (the paper's Table 4).
    gamma
        The scale of the cosine.
    """

    def __init__(self, trunk: nn.Module, dim: int, *, neck: bool = False, gamma: float = 10.0) -> None:
        super().__init__()
        self.trunk = trunk
        self.neck = DualLinear(dim, rows=dim, gamma=gamma) if neck else None
        self.head = DualLinear(dim, gamma=gamma)
        self.extra = nn.ModuleDict()  # what a method trains besides

    @classmethod
    def of(cls, module: nn.Module, *, dim: int | None = None, neck: bool = False, gamma: float = 10.0) -> "Network":
        """Wrap any module.

        One of our backbones, or any module together with `dim`, is a trunk. Of another module the last Linear, its
        classifier, gives way to our head, which starts without classes; the module itself is changed.
        """
        if isinstance(module, cls):
            return module
        if not isinstance(module, nn.Module):
            raise errors.wrong("A network", "be a torch module", type(module).__name__)
        if dim is None and hasattr(module, "recipe"):
            dim = getattr(module, "dim", None)
        if dim is not None:
            return cls(module, dim, neck=neck, gamma=gamma)
        name, last = [(n, m) for n, m in module.named_modules() if not list(m.children())][-1]
        if not isinstance(last, nn.Linear) or not name:
            raise errors.InputError(
                f"The last layer of {type(module).__name__} is no Linear that a head could replace. "
                "If it makes features, wrap it with Network.of(module, dim=<length of a feature>)."
            )
        parent, _, attribute = name.rpartition(".")
        setattr(module.get_submodule(parent), attribute, nn.Identity())
        return cls(module, last.in_features, neck=neck, gamma=gamma)

    @property
    def classes(self) -> int:
        """How many classes the head has a row for."""
        return len(self.head.bias)

    def grow(self, count: int, head: Generator | None = None, extra: Generator | None = None) -> None:
        """Give the head, and what grows with it, `count` more classes, each drawn by a generator of its own."""
        self.head.grow(count, head)
        for module in self.extra.values():
            if grow := getattr(module, "grow", None):
                grow(count, extra)

    def shrink(self, count: int) -> "Network":
        """Keep only the first `count` classes of the head."""
        self.head.weight = nn.Parameter(self.head.weight.detach()[:count])
        self.head.bias = nn.Parameter(self.head.bias.detach()[:count])
        return self

    def forward(self, x: Tensor, forms: Sequence[Form] = ("dot",), couple: Couple = "head") -> list[Tensor]:
        """Map inputs (n, ...) to logits (n, classes) in each of the forms."""
        h = self.features(x)
        return [self.logits(h, form, couple) for form in forms]

    def features(self, x: Tensor) -> Tensor:
        """Map inputs (n, ...) to features (n, dim)."""
        return self.trunk(x)

    def logits(self, h: Tensor, form: Form = "dot", couple: Couple = "head") -> Tensor:
        """Map features (n, dim) to logits (n, classes): the coupled layers in the given form, the others in dot."""
        if self.neck is not None:
            h = F.relu(self.neck(h, "dot" if couple == "head" else form))
        return self.head(h, "dot" if couple == "neck" else form)

    @torch.no_grad()
    def admit(self, sample: Tensor) -> None:
        """Raise if a sample (1, ...) cannot go through the trunk, or does not become a feature (1, dim)."""
        recipe, shape = getattr(self.trunk, "recipe", None), tuple(sample.shape[1:])
        if recipe and list(shape) != recipe["shape"]:
            raise errors.wrong(f"Samples for this {recipe['name']}", f"have the shape {tuple(recipe['shape'])}", shape)
        try:
            h = copy.deepcopy(self.trunk).eval()(sample)
        except Exception as error:
            because = str(error).partition("\n")[0]
            raise errors.InputError(f"Samples of the shape {shape} do not go through this network: {because}") from None
        if tuple(h.shape) != (1, self.head.dim):
            made = f"become features of the shape {tuple(h.shape[1:])}, where the head takes ({self.head.dim},)"
            raise errors.InputError(f"Samples of the shape {shape} {made}.")
