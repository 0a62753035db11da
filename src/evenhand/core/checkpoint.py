"""The state of a learner: every tensor by name, everything else as JSON facts, and how to restore both."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from evenhand import __version__, backbones, errors, files
from evenhand.core import inputs, parts, registry
from evenhand.core.draws import seeded
from evenhand.core.kept import through_json
from evenhand.core.labels import Label, label
from evenhand.core.method import Method
from evenhand.core.network import Network
from evenhand.core.settings import LEARNER

if TYPE_CHECKING:
    from evenhand.core.learner import Learner

L = TypeVar("L", bound="Learner")
FORMAT = 2  # raise it when an older version can no longer read what this one writes
SETTINGS = (*(name for name in LEARNER if name != "memory"), "rows")
GIVEN = ("augment", "optimizer", "schedule")  # may be the user's functions, which cannot be saved
MEANT = {"ema": {"decay": 0.99, "by_row": False}}  # defaults from before `tests` were saved in full
MISFIT = "The saved weights do not fit this network. Build it as it was when it was saved."
OPTIONS = (*GIVEN, "on_step", "compile", "precision", "device", "store")


def facts(learner: "Learner") -> dict[str, Any]:
    """Everything except tensors, as JSON: method, settings, labels, steps, and the versions that wrote it."""
    network, trunk = learner.network, learner.network.trunk
    settings = {name: getattr(learner, name) for name in SETTINGS}
    return {
        "format": FORMAT,
        "versions": {"evenhand": __version__, "torch": torch.__version__},
        "modules": sorted(parts.modules(learner.method)),
        "method": learner.method.to_json(),
        "settings": {
            "memory": learner.memory.size,
            **settings,
            "augment": "given" if callable(learner.augment) else learner.augment,
            **learner.optimization.spelled,
            "tests": registry.in_full(learner.tests),
            "clip": learner.optimization.clip,
        },
        "rates": learner.optimization.rates,
        "optimizer": _optimizer(learner),
        "network": {
            "backbone": trunk.recipe if isinstance(trunk, backbones.Backbone) else None,
            "neck": network.neck is not None,
            "gamma": network.head.gamma,
            "head": network.replaced and network.replaced.name,
            "output": network.output,
            "planar": network.planar,
            "still": network.still,
            "extra": {name: through_json(name, value) for name, value in network.extra_state().items()},
            "frozen": [name for name, parameter in trunk.named_parameters() if not parameter.requires_grad],
        },
        "labels": list(learner.labels),
        "steps": learner.steps,
        "prequential": [learner.prequential.right, learner.prequential.asked],
        "kind": learner.kind and [learner.kind.dtype, list(learner.kind.shape), *learner.kind[2:]],
        "kept": learner.kept.facts(),
    }


def _optimizer(learner: "Learner") -> dict[str, Any]:
    """The optimizer's state except tensors, and the options of its groups that JSON can hold."""
    state, groups = learner.optimization.state().items(), learner.optimization.options()
    return {
        "kind": type(learner.optimizer).__name__,
        "values": {name: through_json(f"optimizer/{name}", v) for name, v in state if not isinstance(v, Tensor)},
        "groups": [{name: value for name, value in group.items() if _is_json(value)} for group in groups],
    }


def _is_json(value: Any) -> bool:
    """Whether it is a value, or a tuple of values such as Adam's betas, that JSON can hold."""
    if type(value) is tuple:
        return all(map(_is_json, value))
    return value is None or type(value) in (bool, int, float, str)


def _tupled(value: Any) -> Any:
    """A value as it was before JSON turned tuples into lists."""
    return tuple(map(_tupled, value)) if isinstance(value, list) else value


def tensors(learner: "Learner") -> dict[str, Tensor]:
    """Every tensor that changes, by name."""
    return {
        **{f"network/{name}": tensor for name, tensor in learner.network.state().items()},
        **{f"memory/{name}": tensor for name, tensor in learner.memory.state_dict().items()},
        **{f"generator/{name}": generator.get_state() for name, generator in learner.generators.items()},
        **{f"kept/{name}": tensor for name, tensor in learner.kept.state_dict().items()},
        **{f"optimizer/{name}": v for name, v in learner.optimization.state().items() if isinstance(v, Tensor)},
    }


def restore(learner: "Learner", saved: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Load the tensors and facts of another learner; every label must already have its row."""

    def below(prefix: str) -> dict[str, Tensor]:
        return {k.removeprefix(prefix): v for k, v in saved.items() if k.startswith(prefix)}

    learner.steps = facts["steps"]
    learner.prequential.right, learner.prequential.asked = facts.get("prequential", (0, 0))
    learner.memory.kind = inputs.Kind.from_json(facts["kind"]) if facts["kind"] else None
    learner.network.columns = learner.kind and learner.kind.columns
    try:
        learner.network.load_state(below("network/") | facts["network"].get("extra", {}))
    except (RuntimeError, AttributeError, KeyError):
        raise errors.InputError(MISFIT) from None
    learner.memory.load_state_dict(below("memory/"))
    learner.kept.load_state_dict(below("kept/"), facts["kept"], learner.network)
    optimizer = facts.get("optimizer", {"values": {}, "groups": []})
    kind = type(learner.optimizer).__name__
    if optimizer.get("kind", kind) != kind:
        raise errors.wrong("The 'optimizer' of this learner", f"be {optimizer['kind']}, as when it was saved", kind)
    learner.optimization.load_state(below("optimizer/") | optimizer["values"])
    learner.optimization.set_rates(facts.get("rates", learner.optimization.rates))
    groups = optimizer["groups"] or [{} for _ in learner.optimization.rates]
    learner.optimization.set_options([{name: _tupled(value) for name, value in group.items()} for group in groups])
    for name, state in below("generator/").items():
        learner.generators[name].set_state(state)


@torch.inference_mode(False)
def load(cls: type[L], path: str | Path, network: nn.Module | None, options: Mapping[str, Any]) -> L:
    """Load a learner from a file, saved by itself or as part of a run."""
    for option in options:
        if option not in OPTIONS:
            raise errors.unknown("option of load", option, OPTIONS)
    tensors, facts = files.read_state(Path(path))
    facts = facts.get("learner", facts)
    if facts.get("format", 1) > FORMAT:
        raise errors.RunError(
            f"{path} was written by evenhand {facts['versions']['evenhand']}. Load it with that version."
        )
    registry.recipes()  # registers the parts of all methods
    try:
        settings = {
            **facts["settings"],
            "tests": registry.in_full(facts["settings"].get("tests", ""), MEANT),
            **options,
        }
        for name in GIVEN:
            if settings.get(name) == "given":
                raise errors.InputError(
                    f"{path} was saved with a function as '{name}'. Pass the same one as {name}=..."
                )
            if name in options and facts["settings"].get(name, "given") != "given":
                raise errors.InputError(
                    f"{path} was saved with {name}='{facts['settings'][name]}', which cannot be changed. "
                    f"Leave out {name}=..."
                )
        if callable(settings.get("optimizer")):
            del settings["lr"]  # the optimizer has its own
        made = _network(path, facts["network"], network)
        try:
            learner = cls(made, _method(path, facts), **settings)
            learner.network.find_modes(facts["network"].get("still"))  # also if they have been thawed since
            learner.load_state_dict(tensors, facts)
        except BaseException:
            if made is not network:
                made.give_back()
            raise
    except (KeyError, TypeError, AttributeError) as error:
        if any(callable(options.get(name)) for name in GIVEN):  # the mistake may be in one of these functions
            raise
        raise errors.RunError(f"{path} is damaged: {error} is missing or wrong.") from None
    return learner


def labels(facts: Mapping[str, Any]) -> list[Label]:
    """The saved labels."""
    return [label(value) for value in facts["labels"]]


def _method(path: str | Path, facts: Mapping[str, Any]) -> Method:
    try:
        return Method.from_json(facts["method"])
    except errors.InputError as error:
        missing = [name for name in facts.get("modules", ()) if name not in sys.modules]
        if not missing:
            raise
        raise errors.InputError(f"{error} {path} needs {' and '.join(missing)}. Import that first.") from None


def _network(path: str | Path, shape: Mapping[str, Any], module: nn.Module | None) -> Network:
    """The network of a saved learner, without its weights: the user's module, or one of our backbones, rebuilt."""
    with seeded(0, "load"):  # the weights will be overwritten; the global generator must not advance
        if module is None:
            if shape["backbone"] is None:
                raise errors.InputError(
                    f"{path} was saved with a custom network. Build one like it, and pass it as network=..."
                )
            module = backbones.rebuild(shape["backbone"]).float()  # whatever torch's default dtype is
        network = Network.of(module, head=shape.get("head") or None, neck=shape["neck"], gamma=shape["gamma"])
    if network.head.gamma != shape["gamma"]:
        raise errors.InputError(MISFIT)
    network.output, network.planar = shape.get("output"), shape.get("planar", False)
    network.train("still" in shape or network.training)
    try:
        frozen = [network.trunk.get_parameter(name) for name in shape.get("frozen", ())]
        for parameter in network.trunk.parameters() if "frozen" in shape else ():
            parameter.requires_grad_(not any(parameter is each for each in frozen))
        for name in shape.get("still", ()):
            network.get_submodule(name).eval()
    except AttributeError:
        raise errors.InputError(MISFIT) from None
    return network
