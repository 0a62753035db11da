"""The state of a learner: every tensor by name, everything else as JSON facts, and how to restore both."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from torch import Tensor, nn

from evenhand import backbones, errors, files
from evenhand.core import inputs, registry
from evenhand.core.draws import seeded
from evenhand.core.method import Method
from evenhand.core.network import Network
from evenhand.core.settings import LEARNER

if TYPE_CHECKING:
    from evenhand.core.learner import Learner

L = TypeVar("L", bound="Learner")
SETTINGS = (*(name for name in LEARNER if name != "memory"), "rows")


def facts(learner: "Learner") -> dict[str, Any]:
    """Everything except tensors, as JSON: method, settings, labels, steps."""
    return {
        "method": learner.method.to_json(),
        "settings": {"memory": learner.memory.size, **{name: getattr(learner, name) for name in SETTINGS}},
        "network": {
            "backbone": getattr(learner.network.trunk, "recipe", None),
            "neck": learner.network.neck is not None,
            "gamma": learner.network.head.gamma,
        },
        "labels": list(learner.labels),
        "steps": learner.steps,
        "kind": learner.kind and [learner.kind.dtype, list(learner.kind.shape)],
        "kept": learner.kept.facts(),
    }


def tensors(learner: "Learner") -> dict[str, Tensor]:
    """Every tensor that changes, by name."""
    return {
        **{f"network/{name}": tensor for name, tensor in learner.network.state_dict().items()},
        **{f"memory/{name}": tensor for name, tensor in learner.memory.state_dict().items()},
        **{f"generator/{name}": generator.get_state() for name, generator in learner.generators.items()},
        **{f"kept/{name}": tensor for name, tensor in learner.kept.state_dict().items()},
    }


def restore(learner: "Learner", saved: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Take over the tensors and the facts of another learner; every label must have its row already."""

    def below(prefix: str) -> dict[str, Tensor]:
        return {k.removeprefix(prefix): v for k, v in saved.items() if k.startswith(prefix)}

    learner.steps = facts["steps"]
    learner.kind = inputs.Kind(facts["kind"][0], tuple(facts["kind"][1])) if facts["kind"] else None
    try:
        learner.network.load_state_dict(below("network/"))
    except RuntimeError:
        raise errors.InputError("The saved weights do not fit this network. Build it as it was saved.") from None
    learner.memory.load_state_dict(below("memory/"))
    learner.kept.load_state_dict(below("kept/"), facts["kept"], learner.network)
    for name, state in below("generator/").items():
        learner.generators[name].set_state(state)


def load(cls: type[L], path: str | Path, network: nn.Module | None, **conditions: Any) -> L:
    """The learner that was saved to a file, by itself or as part of a run."""
    tensors, facts = files.read_state(Path(path))
    facts = facts.get("learner", facts)
    registry.recipes()  # registers the parts of all methods
    try:
        learner = cls(
            _network(path, facts, network), Method.from_json(facts["method"]), **facts["settings"], **conditions
        )
        learner.load_state_dict(tensors, facts)
    except (KeyError, TypeError, AttributeError) as error:
        raise errors.RunError(f"{path} is damaged: {error} is missing or wrong.") from None
    return learner


def labels(facts: Mapping[str, Any]) -> list[inputs.Label]:
    """The saved labels."""
    return [inputs.label(label) for label in facts["labels"]]


def _network(path: str | Path, facts: Mapping[str, Any], module: nn.Module | None) -> Network:
    """The network of a saved learner, before its weights: the user's module, or one of our backbones built again."""
    shape = facts["network"]
    with seeded(0, "load"):  # the weights are overwritten; the global generator must not move
        if module is None:
            if shape["backbone"] is None:
                raise errors.InputError(f"{path} was saved with a custom network. Pass it as network=...")
            module = backbones.rebuild(shape["backbone"])
        return Network.of(module, neck=shape["neck"], gamma=shape["gamma"])
