"""Optimization: how gradients update the weights. Optimizers and schedules have names, so that they can be saved."""

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from evenhand import errors, names
from evenhand.core.settings import plain

Factory = Callable[[list[nn.Parameter]], Optimizer]
Schedule = Callable[[int], float]


def sgd(lr: float, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False) -> Factory:
    """Stochastic gradient descent."""
    return lambda parameters: torch.optim.SGD(
        parameters, lr, momentum, weight_decay=weight_decay, nesterov=nesterov, foreach=True
    )


def adam(lr: float, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8, weight_decay: float = 0.0) -> Factory:
    """Adam."""
    return lambda parameters: torch.optim.Adam(parameters, lr, (beta1, beta2), eps, weight_decay)


def adamw(
    lr: float, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8, weight_decay: float = 0.01
) -> Factory:
    """Adam with decoupled weight decay."""
    return lambda parameters: torch.optim.AdamW(parameters, lr, (beta1, beta2), eps, weight_decay)


def rmsprop(lr: float, alpha: float = 0.99, momentum: float = 0.0, weight_decay: float = 0.0) -> Factory:
    """RMSprop."""
    return lambda parameters: torch.optim.RMSprop(parameters, lr, alpha, momentum=momentum, weight_decay=weight_decay)


def constant() -> Schedule:
    """Keep the learning rate."""
    return lambda step: 1.0


def warmup(steps: int = 100) -> Schedule:
    """Rise linearly to 1 within `steps` steps."""
    return lambda step: min(1.0, (step + 1) / steps)


def linear(steps: int = 10_000, end: float = 0.0) -> Schedule:
    """Fall linearly to `end`, and stay there."""
    return lambda step: end + (1 - end) * max(0.0, 1 - step / steps)


def cosine(steps: int = 10_000, end: float = 0.0) -> Schedule:
    """Fall to `end` along half a cosine, and stay there."""
    return lambda step: end + (1 - end) * (1 + math.cos(math.pi * min(1.0, step / steps))) / 2


def stairs(every: int = 1000, factor: float = 0.5) -> Schedule:
    """Multiply by `factor` once every `every` steps."""
    return lambda step: factor ** (step // every)


SQUARES = ("exp_avg_sq", "max_exp_avg_sq", "square_avg")  # as torch's optimizers name them
OPTIMIZERS: dict[str, Callable[..., Factory]] = {"sgd": sgd, "adam": adam, "adamw": adamw, "rmsprop": rmsprop}
SCHEDULES: dict[str, Callable[..., Schedule]] = {
    "constant": constant,
    "warmup": warmup,
    "linear": linear,
    "cosine": cosine,
    "stairs": stairs,
}


class Product:
    """A named schedule; unlike a lambda it can be pickled."""

    def __init__(self, name: str, parts: Sequence[Schedule]) -> None:
        self.name, self.parts = name, parts

    def __call__(self, step: int) -> float:
        return math.prod(part(step) for part in self.parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return _scheduled, (self.name,)


class Optimization:
    """An optimizer, the learning rate of each of its groups, its schedule and the maximum gradient norm.

    Parameters
    ----------
    parameters
        The parameters to optimise.
    lr
        The learning rate of a named optimizer; a factory has its own.
    optimizer
        A name such as "sgd(momentum=0.9)", or a function that takes the parameters and returns a torch optimizer.
    schedule
        Names such as "warmup(steps=100)+cosine(steps=5000)", or a function that maps the step number to a factor of
        the learning rate.
    clip
        Maximum gradient norm; a larger gradient is scaled down to it.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        optimizer: str | Factory = "sgd",
        schedule: str | Schedule = "constant",
        clip: float | None = None,
    ) -> None:
        self.clip = None if clip is None else errors.number("The 'clip' of a learner", plain(clip), 1e-12)
        self.spelled = {
            "optimizer": _canonical("optimizer", optimizer, OPTIMIZERS),
            "schedule": _canonical("schedule", schedule, SCHEDULES),
        }
        self.schedule = None if schedule == "constant" else _scheduled(schedule)
        moving = list(parameters)
        self.optimizer = _factory(optimizer, lr)(moving)
        if not isinstance(self.optimizer, Optimizer):
            raise errors.wrong(
                "The 'optimizer' of a learner", "return a torch optimizer", type(self.optimizer).__name__
            )
        given = {id(parameter) for group in self.optimizer.param_groups for parameter in group["params"]}
        if any(id(parameter) not in given for parameter in moving if parameter.requires_grad):
            raise errors.InputError("The 'optimizer' of a learner must take all parameters that it is given.")
        if isinstance(self.optimizer, torch.optim.LBFGS):
            raise errors.InputError(
                "LBFGS needs the loss several times per step. A learner takes it once: choose another."
            )
        self.base = self._live()

    def _live(self) -> list[float | None]:
        """The learning rate of each group now; None where the optimizer finds its own."""
        found = [group.get("lr") for group in self.optimizer.param_groups]
        return [None if rate is None else float(rate) for rate in found]

    @property
    def rates(self) -> list[float | None]:
        """The learning rate of each group, before the schedule; without one it may be set in the optimizer."""
        return self._live() if self.schedule is None else self.base

    @property
    def lr(self) -> float | None:
        """The learning rate of the first group, before the schedule."""
        return self.rates[0]

    @lr.setter
    def lr(self, value: float) -> None:
        first, *others = self.rates
        ratio = value / first if first else 1.0
        self.set_rates([value, *(_times(rate, ratio) for rate in others)])

    def set_rates(self, rates: Sequence[float | None]) -> None:
        """Set the learning rate of each group."""
        if len(rates) != len(self.optimizer.param_groups):
            raise errors.wrong("The optimizer", f"have {len(rates)} groups, as when it was saved", len(self.rates))
        self.base = list(rates)
        self._apply(rates)

    def _apply(self, rates: Sequence[float | None]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = rate

    def follow(self, step: int, gradients: Mapping[nn.Parameter, Tensor | None], norm: Tensor) -> None:
        """Take step number `step` along the gradients, whose total norm is `norm`."""
        scale = self.scale(norm)
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                gradient = gradients.get(parameter)
                parameter.grad = gradient if gradient is None or scale is None else gradient * scale
        if self.schedule is not None:
            self._apply(self.scheduled(step))
        self.optimizer.step()

    def scale(self, norm: Tensor) -> Tensor | None:
        """The factor that brings gradients of this total norm down to the maximum; None without one."""
        return None if self.clip is None else (self.clip / (norm + 1e-6)).clamp(max=1)

    def scheduled(self, step: int) -> list[float | None]:
        """The learning rate of each group in step number `step`."""
        if self.schedule is None:
            return self.rates
        factor = errors.number(f"The schedule at step {step + 1}", plain(self.schedule(step)), 0)
        return [_times(rate, factor) for rate in self.rates]

    def rates_of(self, parameters: Iterable[nn.Parameter], step: int) -> list[float | None]:
        """The learning rate of each parameter in step number `step`; 0 for one that is not optimised."""
        groups = zip(self.optimizer.param_groups, self.scheduled(step), strict=True)
        rates = {id(parameter): rate for group, rate in groups for parameter in group["params"]}
        return [rates.get(id(parameter), 0.0) for parameter in parameters]

    def groups(self, network: nn.Module) -> list[list[int]]:
        """The indices of the network's parameters in each group."""
        number = {parameter: i for i, parameter in enumerate(network.parameters())}
        return [[number[p] for p in group["params"] if p in number] for group in self.optimizer.param_groups]

    def regroup(self, network: nn.Module, groups: Sequence[Sequence[int]]) -> None:
        """Give every group the network's parameters at these indices, and clear the optimizer's state."""
        parameters = list(network.parameters())
        self.optimizer.state.clear()
        for group, numbers in zip(self.optimizer.param_groups, groups, strict=True):
            group["params"] = [parameters[number] for number in numbers]

    def replace(self, old: Sequence[nn.Parameter], new: Sequence[nn.Parameter]) -> None:
        """Replace old parameters with new ones, which may have more or fewer rows.

        Every row keeps its state in the optimizer. That of a new row is zero, except mean squares: they start at the
        mean of the other rows, since the first steps of a new class would otherwise be several times too long.
        """
        successors = dict(zip(old, new, strict=True))
        for group in self.optimizer.param_groups:
            group["params"] = [successors.get(parameter, parameter) for parameter in group["params"]]
        for before, after in successors.items():
            known = self.optimizer.state.pop(before, None) if after is not before else None
            if known is not None and _resizable(known, before):
                self.optimizer.state[after] = {
                    key: _resized(value, after, key in SQUARES) if isinstance(value, Tensor) and value.ndim else value
                    for key, value in known.items()
                }

    def state(self) -> dict[str, Any]:
        """The optimizer's state, by the index of the parameter and the name of the value."""
        saved = self.optimizer.state_dict()["state"]
        if not all(isinstance(values, Mapping) for values in saved.values()):
            name = type(self.optimizer).__name__
            raise errors.InputError(f"{name} keeps state that belongs to no parameter, which cannot be saved.")
        return {f"{number}/{name}": value for number, values in saved.items() for name, value in values.items()}

    def options(self) -> list[dict[str, Any]]:
        """The options of each group except parameters and learning rate; some optimizers keep counters there."""
        groups = self.optimizer.param_groups
        return [{name: value for name, value in group.items() if name not in ("params", "lr")} for group in groups]

    def set_options(self, options: Sequence[Mapping[str, Any]]) -> None:
        """Set what `options` returned."""
        for group, values in zip(self.optimizer.param_groups, options, strict=True):
            group.update(copy.deepcopy(values))

    def load_state(self, state: dict[str, Any]) -> None:
        """Load what `state` returned."""
        known: dict[int, dict[str, Any]] = {}
        for key, value in state.items():
            number, _, name = key.partition("/")
            known.setdefault(int(number), {})[name] = value.clone() if isinstance(value, Tensor) else value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": known})
        for parameter, values in self.optimizer.state.items():
            for name, value in values.items():
                if isinstance(value, Tensor) and value.shape == parameter.shape:  # fused kernels want its layout
                    values[name] = torch.empty_like(parameter, dtype=value.dtype).detach().copy_(value)


def _canonical(kind: str, text: Any, known: dict[str, Callable[..., Any]]) -> str:
    """The canonical spelling of an optimizer's or a schedule's name; "given" for anything else."""
    if not isinstance(text, str):
        return "given"
    skip = int(known is OPTIMIZERS)
    found = names.terms(kind, text, known)
    if skip and len(found) > 1:
        raise errors.unknown(kind, text, known)
    return "+".join(names.spell(name, arguments, names.parameters(known[name], skip)) for name, arguments in found)


def _factory(optimizer: Any, lr: float) -> Factory:
    if callable(optimizer):
        return optimizer
    if not isinstance(optimizer, str):
        raise errors.wrong("The 'optimizer' of a learner", "be a name, or a function that takes parameters", optimizer)
    name, arguments = names.term("optimizer", optimizer, OPTIMIZERS)
    arguments = names.bind(name, arguments, names.parameters(OPTIMIZERS[name], skip=1))

    def build(parameters: list[nn.Parameter]) -> Optimizer:
        try:
            return OPTIMIZERS[name](lr, **arguments)(parameters)
        except (ValueError, TypeError) as error:
            raise errors.InputError(f"The optimizer '{optimizer}' cannot be built: {error}.") from None

    return build


def _scheduled(schedule: Any) -> Schedule:
    if callable(schedule):
        return schedule
    if not isinstance(schedule, str):
        raise errors.wrong("The 'schedule' of a learner", "be a name, or a function of the step's number", schedule)
    found = names.terms("schedule", schedule, SCHEDULES)
    parts = []
    for name, arguments in found:
        bound = names.bind(name, arguments, names.parameters(SCHEDULES[name]))
        for key, value in bound.items():
            errors.number(f"The '{key}' of the schedule {name}", value, 1 if key in ("steps", "every") else 0)
        parts.append(SCHEDULES[name](**bound))
    return Product(schedule, parts)


def _times(rate: float | None, factor: float) -> float | None:
    return None if rate is None else rate * factor


def _resizable(known: Mapping[str, Any], parameter: nn.Parameter) -> bool:
    """Whether an optimizer's state can be split by row; otherwise, as with Adafactor, it is dropped."""
    rows = [value for value in known.values() if isinstance(value, Tensor) and value.ndim]
    return all(value.shape == parameter.shape for value in rows) and "step_size" not in known  # Rprop's


def _resized(value: Tensor, parameter: nn.Parameter, mean: bool) -> Tensor:
    """A value in the shape of the parameter, which may have grown in any dimension: new entries are zero, or a mean."""
    kept = value[tuple(map(slice, parameter.shape))]
    resized = value.new_full(parameter.shape, float(value.mean()) if mean and value.numel() else 0.0)
    resized[tuple(map(slice, kept.shape))] = kept
    return resized
