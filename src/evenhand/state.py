"""The state of a learner: what is no tensor as facts, every tensor by name, and the way back."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from evenhand import admission, backbones, errors
from evenhand.draws import seeded
from evenhand.network import Network

if TYPE_CHECKING:
    from evenhand.learner import Learner


def facts(learner: "Learner") -> dict[str, Any]:
    """What is no tensor, as JSON: method, settings, labels, steps."""
    return {
        "method": learner.method.to_json(),
        "settings": {
            "memory": learner.memory.size,
            "replay": learner.replay,
            "lr": learner.lr,
            "iterations": learner.iterations,
            "augment": learner.augment,
            "views": learner.views,
            "passes": learner.passes,
            "classes": learner.classes,
            "seed": learner.seed,
        },
        "network": {
            "backbone": getattr(learner.network.trunk, "recipe", None),
            "neck": learner.network.neck is not None,
            "gamma": learner.network.head.gamma,
        },
        "labels": list(learner.labels),
        "stages": list(learner.stages),
        "steps": learner.steps,
        "teacher": learner.teacher and learner.teacher.classes,
        "kind": learner.kind and list(learner.kind),
    }


def tensors(learner: "Learner") -> dict[str, Tensor]:
    """Every tensor that changes, by name."""
    return {
        **{f"network/{name}": tensor for name, tensor in learner.network.state_dict().items()},
        **{f"memory/{name}": tensor for name, tensor in learner.memory.state_dict().items()},
        **{f"generator/{name}": drawn.get_state() for name, drawn in learner.generators.items()},
        **({f"teacher/{name}": t for name, t in learner.teacher.state_dict().items()} if learner.teacher else {}),
    }


def restore(learner: "Learner", saved: Mapping[str, Tensor], told: Mapping[str, Any]) -> None:
    """Take over the tensors and the facts of another learner, whose labels have their rows already."""

    def below(prefix: str) -> dict[str, Tensor]:
        return {k.removeprefix(prefix): v for k, v in saved.items() if k.startswith(prefix)}

    learner.stages, learner.steps = list(told["stages"]), told["steps"]
    learner.kind = (told["kind"][0], told["kind"][1]) if told["kind"] else None
    try:
        learner.network.load_state_dict(below("network/"))
    except RuntimeError:
        raise errors.InputError("The saved weights do not fit this network. Build it as it was saved.") from None
    learner.memory.load_state_dict(below("memory/"))
    for name, state in below("generator/").items():
        learner.generators[name].set_state(state)
    if told["teacher"] is not None:
        learner.teacher = copy.deepcopy(learner.network).shrink(told["teacher"]).eval().requires_grad_(False)
        learner.teacher.load_state_dict(below("teacher/"))


def labels(told: Mapping[str, Any]) -> list[admission.Label]:
    """The labels among facts."""
    return [admission.label(label) for label in told["labels"]]


def network(path: str | Path, told: Mapping[str, Any], given: nn.Module | None) -> Network:
    """The network of a saved learner, before its weights: the given one, or one of our backbones built again."""
    shape = told["network"]
    with seeded(0, "load"):  # the weights are overwritten; the global generator must not move
        if given is None:
            if shape["backbone"] is None:
                raise errors.InputError(f"{path} was saved with a network of your own. Give it as network=...")
            given = backbones.rebuild(shape["backbone"])
        return Network.of(given, neck=shape["neck"], gamma=shape["gamma"])
