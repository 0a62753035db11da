"""The network: a trunk that computes features, an optional neck, and a head that grows with the classes."""

import math
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.nn.parameter import is_lazy

from evenhand import errors
from evenhand.backbones import Backbone
from evenhand.core import wrapping
from evenhand.core.cloning import fits
from evenhand.core.packing import Columns, unpack
from evenhand.core.precision import computing
from evenhand.core.scoring import Couple, Form

OWNERS: weakref.WeakKeyDictionary[nn.Module, Any] = weakref.WeakKeyDictionary()  # the learner of each trunk
EPSILON = 1e-5  # keeps the gradient of cos bounded where a feature or a row of W vanishes


class DualLinear(nn.Module):
    """A linear layer with two forms of logits, which share one W.

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
        """Append rows, each initialised as in torch's Linear: w and b uniform in +-1/sqrt(dim).

        Rows are drawn one by one, each with its bias, so it does not matter how many are added at a time. Weight and
        bias become new parameters, which an optimizer must be given.
        """
        rows = (torch.rand(count, self.dim + 1, generator=generator) * 2 - 1) / math.sqrt(self.dim)
        rows = rows.to(self.weight)
        self.weight = nn.Parameter(torch.cat([self.weight.detach(), rows[:, :-1]]))
        self.bias = nn.Parameter(torch.cat([self.bias.detach(), rows[:, -1]]))

    def forward(self, h: Tensor, form: Form) -> Tensor:
        """Map h (..., dim) to (..., rows) in the given form."""
        if form == "dot":
            return F.linear(h, self.weight, self.bias)
        if form != "cos":
            raise errors.wrong("The form of logits", "be dot or cos", form)
        w_norm = torch.linalg.vector_norm(self.weight, dim=1) + EPSILON
        h_norm = torch.linalg.vector_norm(h, dim=-1, keepdim=True) + EPSILON
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
        Insert a linear layer with ReLU (dim -> dim) before the head (the paper's Table 4).
    gamma
        The scale of the cosine.
    """

    def __init__(self, trunk: nn.Module, dim: int, *, neck: bool = False, gamma: float = 10.0) -> None:
        super().__init__()
        errors.number("The 'gamma' of a network", gamma, 1e-6)
        self.trunk = trunk
        self.neck = DualLinear(dim, rows=dim, gamma=gamma).float() if neck else None
        self.head = DualLinear(dim, gamma=gamma).float()  # whatever torch's default dtype is
        self.extra = nn.ModuleDict()  # further modules of a method
        self.precision = "fp32"
        self.planar = False  # whether channels must not come last, since the trunk uses `view` on images
        self.columns: Columns | None = None  # of packed samples
        self.output: wrapping.Key = None  # where the trunk's output holds the features; None if it is just them
        self.still: list[str] = []  # the modules that stay in evaluation mode
        self.warned = False  # about a single sample
        self.replaced: wrapping.Replaced | None = None  # the layer that the head replaces
        self.refused = ""  # why the head cannot replace it

    @classmethod
    def of(
        cls,
        module: nn.Module,
        *,
        dim: int | None = None,
        head: str | None = None,
        neck: bool = False,
        gamma: float = 10.0,
    ) -> "Network":
        """Wrap any module.

        One of our backbones, or any module together with `dim`, becomes the trunk. In any other module, our head
        replaces the last Linear, or the one called `head`, and starts without rows; this changes the module itself.
        """
        if isinstance(module, cls):
            return module
        if not isinstance(module, nn.Module):
            raise errors.wrong("A network", "be a torch module", type(module).__name__)
        if any(not is_lazy(parameter) and parameter.is_inference() for parameter in module.parameters()):
            raise errors.InputError(
                "This module was built in torch.inference_mode(), so it cannot learn. Build it outside."
            )
        wrapping.refuse_compiled(module)
        if dim is None and isinstance(module, Backbone):
            dim = module.dim
        if dim is not None:
            return cls(module, dim, neck=neck, gamma=gamma)
        trunk, replaced = wrapping.split(module, head)
        network = cls(trunk, replaced.layer.in_features, neck=neck, gamma=gamma)
        network.replaced = replaced
        return network

    @property
    def rows(self) -> int:
        """Number of rows of the head, each for one class."""
        return len(self.head.bias)

    def grow(self, count: int, head: Generator | None = None, extra: Generator | None = None) -> None:
        """Add rows to the head, and to further modules that grow with it; each draws from its own generator."""
        self.head.grow(count, head)
        for module in self.extra.values():
            if grow := getattr(module, "grow", None):
                grow(count, extra)

    def forward(self, x: Tensor, forms: Sequence[Form] = ("dot",), couple: Couple = "head") -> list[Tensor]:
        """Map inputs (n, ...) to logits (n, rows) in each of the forms."""
        h = self.features(x)
        return [self.logits(h, form, couple) for form in forms]

    def features(self, x: Tensor) -> Tensor:
        """Map inputs (n, ...) to features (n, dim), which are float32 whatever the precision."""
        return self.through(self.trunk, x)

    def through(self, trunk: Callable[..., Any], x: Tensor) -> Tensor:
        """The same with another form of the trunk, such as a compiled one."""
        positional, named = self._arguments(x, self.columns)
        with computing(self.precision, x.device):
            try:
                returned = trunk(*positional, **named)
            except ValueError as error:
                if len(x) > 1 or "more than 1 value per channel" not in str(error):
                    raise
                returned = self._alone(positional, named)
        return wrapping.picked(returned, self.output).to(self.head.weight.dtype)

    def _arguments(self, x: Tensor, columns: Columns | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return unpack(x.contiguous() if self.planar else x, columns)

    def _alone(self, positional: Sequence[Any], named: dict[str, Any]) -> Any:
        """Pass a single sample, which batch normalisation cannot normalise, using its running statistics instead."""
        if not self.warned:
            self.warned = True
            warnings.warn(
                "Batch normalisation cannot normalise a single sample: such a pass uses its running statistics.",
                stacklevel=2,
            )
        norms = [part for part in self.trunk.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
        moving = [norm for norm in norms if norm.training]
        for norm in moving:
            norm.eval()
        try:
            return self.trunk(*positional, **named)
        finally:
            for norm in moving:
                norm.train()

    def logits(self, h: Tensor, form: Form = "dot", couple: Couple = "head") -> Tensor:
        """Map features (n, dim) to logits (n, rows): the coupled layers in the given form, the others in dot."""
        if self.neck is not None:
            h = F.relu(self.neck(h, "dot" if couple == "head" else form))
        return self.head(h, "dot" if couple == "neck" else form)

    def channels_last(self) -> "Network":
        """Give the weights of 2D convolutions their fastest layout, where that is safe and the trunk can use it."""
        narrow = [part for part in self.modules() if isinstance(part, nn.Conv2d) and _narrow(part)]
        for part in narrow:
            if _planar not in part._forward_pre_hooks.values():
                part.register_forward_pre_hook(_planar)
        layout = torch.contiguous_format if self.planar else torch.channels_last
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.ConvTranspose2d) and module not in narrow:
                for parameter in module.parameters(recurse=False):
                    if parameter.ndim == 4:  # not a bias
                        parameter.data = parameter.data.to(memory_format=layout)
        return self

    def in_precision(self, precision: str) -> "Network":
        """Compute the trunk in "fp32" or "bf16" from now on."""
        self.precision = precision
        return self

    def state(self) -> dict[str, Tensor]:
        """All tensors that training may change, by name; buffers that `state_dict` leaves out as "buffer/..."."""
        saved = {name: value for name, value in self.state_dict().items() if isinstance(value, Tensor)}
        return saved | {f"buffer/{name}": tensor for name, tensor in self.named_buffers() if name not in saved}

    def extra_state(self) -> dict[str, Any]:
        """What modules return from `get_extra_state` besides tensors, by name."""
        return {name: value for name, value in self.state_dict().items() if not isinstance(value, Tensor)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Load what `state` returned, and `extra_state` if it is there."""
        saved = {name: value for name, value in state.items() if not name.startswith("buffer/")}
        for path, value in saved.items():  # a buffer may have another shape or type by now, or be None at first
            owner, _, name = path.rpartition(".")
            buffers = self.get_submodule(owner)._buffers
            if name in buffers and not fits(buffers[name], value):
                buffers[name] = torch.empty_like(value, device=self.head.weight.device)
        self.load_state_dict(self.extra_state() | saved)
        for path in state.keys() - saved.keys():
            owner, _, name = path.removeprefix("buffer/").rpartition(".")
            module = self.get_submodule(owner)
            module.register_buffer(name, state[path].to(self.head.weight.device, copy=True), persistent=False)

    def find_modes(self, still: list[str] | None = None) -> None:
        """Remember which modules stay in evaluation mode: these, or those in it now whose parameters are all frozen."""
        frozen = [
            name
            for name, module in self.named_modules()
            if not module.training and {p.requires_grad for p in module.parameters()} == {False}
        ]
        self.still = frozen if still is None else still
        resting = {part for name in self.still for part in self.get_submodule(name).modules()}
        self.__dict__["learns"] = [(module, module not in resting) for module in self.modules()]

    def to_learn(self) -> None:
        """Put every module into the mode that it learns in, whatever the user has set."""
        for module, training in self.__dict__["learns"]:
            module.training = training

    def check_couple(self, couple: Couple) -> None:
        """Raise if a scoring couples a neck that the network does not have."""
        if couple != "head" and self.neck is None:
            raise errors.InputError(
                f"The scoring couples '{couple}', but the network has no neck. "
                "Add one with Network.of(module, neck=True), or --neck on the command line."
            )

    def check_sample(self, sample: Tensor, columns: Columns | None = None) -> wrapping.Key:
        """Find the features in the trunk's output for a sample (1, ...); raises if the head cannot use them."""
        shape = tuple(sample.shape[1:])
        if isinstance(self.trunk, Backbone) and list(shape) != self.trunk.recipe["shape"]:
            name, must = self.trunk.recipe["name"], tuple(self.trunk.recipe["shape"])
            raise errors.wrong(f"Samples for this {name}", f"have the shape {must}", shape)
        if self.refused:
            raise wrapping.HeadError(self.refused)
        of = f"of the shape {shape}" if columns is None else f"of {len(columns)} tensors"
        try:
            name = self.replaced.name if self.replaced else ""
            arguments = self._arguments(sample, columns)
            output, h = wrapping.trial(self.trunk, name, self.head.dim, arguments, self.output)
        except errors.InputError:
            raise
        except Exception as error:
            if sample.ndim == 4 and not self.planar:  # it may need channels to come first, as `view` does
                self.planar = True
                try:
                    return self.channels_last().check_sample(sample, columns)
                except errors.InputError:
                    self.planar = False
                    self.channels_last()
                    raise
            cause = str(error).partition("\n")[0]
            if self.replaced and wrapping.works(self.trunk, self.replaced, arguments):
                raise wrapping.HeadError(
                    f"{type(self.trunk).__name__} needs its layer '{name}', which the head would replace: {cause}. If "
                    "another layer classifies, name it: Learner(model, head='...')."
                ) from None
            integers = (
                " If they are not tokens, pass floats." if columns is None and not sample.is_floating_point() else ""
            )
            raise errors.InputError(f"The network cannot process samples {of}: {cause}{integers}") from None
        if tuple(h.shape) != (1, self.head.dim):
            raise errors.InputError(
                f"The network turns samples {of} into features of the shape {tuple(h.shape[1:])}, but its head takes "
                f"({self.head.dim},)."
            )
        return output

    def give_back(self, refused: str = "") -> None:
        """Put the user's layer back into the module; `refused` is the error when the network is used again."""
        if self.replaced is not None and not isinstance(self.trunk, wrapping.Passage):
            self.replaced.put(self.trunk, self.replaced.layer)
            OWNERS.pop(self.trunk, None)
        self.refused = refused

    @property
    def known(self) -> bool:
        """Whether all modules are torch's or ours, so that a forward pass stores nothing in them."""
        return all(type(part).__module__.startswith(("torch.nn.", "evenhand.")) for part in self.modules())


def check_free(network: Network) -> None:
    """Raise if this trunk belongs to a learner that is still in use."""
    owner = OWNERS.get(network.trunk)
    if owner is not None and owner() is not None:
        raise errors.InputError(f"This {type(network.trunk).__name__} already belongs to a learner. Build another one.")


def _narrow(conv: nn.Conv2d) -> bool:
    """Whether oneDNN for AVX2 may corrupt memory: strided, 1x1, fewer than 8 channels, if these come last."""
    return conv.kernel_size == (1, 1) and conv.stride != (1, 1) and conv.in_channels < 8


def _planar(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(x.clone(memory_format=torch.contiguous_format) for x in inputs)
