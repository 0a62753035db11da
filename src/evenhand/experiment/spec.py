"""A spec: everything that decides a run's numbers, and nothing else. Its key names the run."""

import hashlib
import json
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import ErrorDetails

from evenhand import backbones, datasets, errors, registry, streams
from evenhand.learner import default_views
from evenhand.method import Method

PRESETS: dict[str, dict[str, Any]] = {
    "plain": {"augment": "none", "views": "none", "passes": "joint"},
    # The protocol of the paper; what it leaves open is settled in docs/protocol.md.
    "paper": {"augment": "scr", "views": "concat", "passes": "joint"},
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "fashion-cut": {"memory": 200, "stages": 5},
    "cifar10": {**PRESETS["paper"], "memory": 1000, "stages": 5},
    "cifar100": {**PRESETS["paper"], "memory": 1000, "stages": 10},
    "miniimagenet": {**PRESETS["paper"], "memory": 1000, "stages": 10},
}
NUMBERS = ("size", "imbalance", "stages", "memory", "seed", "batch", "replay", "iterations", "lr")


class Spec(BaseModel):
    """One run: a method, a stream, a network and a seed."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    method: str = Field(description="name of the method, with its parameters: uer(alpha=0.3), mir+uer")
    data: str = Field("fashion-cut", description="name of the dataset")
    size: int | None = Field(None, ge=1, description="side to which images of your own are brought")
    skip_bad: bool = Field(False, description="leave out images of your own that cannot be read")
    order: str = Field("classes", description="how the stream is ordered, with its parameters: blurry(blur=10)")
    imbalance: float = Field(1, ge=1, description="samples of the most frequent class for one of the rarest")
    stages: int = Field(5, ge=1, description="groups of classes that come one after the other")
    tested: Literal["test", "validation"] = Field("test", description="with test or with held-out training samples")
    forms: Literal["own", "both"] = Field("own", description="tested as the method says, or by dot and cos both")
    memory: int = Field(200, ge=0, description="samples that may be kept")
    seed: int = Field(0, ge=0, description="of all random draws")
    batch: int = Field(10, ge=1, description="samples a step from the stream")
    replay: int = Field(10, ge=1, description="samples a step from the memory")
    iterations: int = Field(1, ge=1, description="times each batch is learned")
    lr: float = Field(0.1, gt=0, description="learning rate of SGD")
    backbone: str = Field("reduced_resnet18", description="name of the trunk, with its parameters")
    neck: bool = Field(False, description="a further linear layer before the head (Table 4)")
    softmax: Literal["seen", "all"] = Field("seen", description="over the classes seen so far, or over all to come")
    augment: Literal["none", "crop", "scr"] = Field("none", description="augmentation")
    views: Literal["none", "replace", "concat"] = Field("none", description="augmented view alone or beside the raw")
    passes: Literal["joint", "separate"] = Field("joint", description="stream and replay in one forward pass or two")

    @field_validator(*NUMBERS, mode="before")
    @classmethod
    def _number(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool):
            raise errors.wrong(f"The '{info.field_name}' of a run", "be a number", value)
        return value

    @field_validator("method")
    @classmethod
    def _method(cls, name: str) -> str:
        registry.resolve(name)
        return registry.canonical(name)

    @field_validator("data")
    @classmethod
    def _data(cls, name: str) -> str:
        return datasets.known(name)

    @field_validator("order")
    @classmethod
    def _order(cls, name: str) -> str:
        return streams.canonical(name)

    @field_validator("backbone")
    @classmethod
    def _backbone(cls, name: str) -> str:
        return backbones.canonical(name)

    @model_validator(mode="after")
    def _consistent(self) -> "Spec":
        if (self.views == "none") != (self.augment == "none"):
            raise errors.InputError(f"augment='{self.augment}' and views='{self.views}' contradict each other.")
        own = getattr(streams.named(self.order), "stages", None)
        if own == 1 and self.stages != 1:
            raise errors.wrong("The 'stages' of a run", f"be 1 in the order {self.order}", self.stages)
        return self

    @classmethod
    def make(cls, preset: str | None = None, **given: Any) -> "Spec":
        """Fill in the dataset's defaults, or a preset's; what is given by hand overrides both."""
        if preset is not None and preset not in PRESETS:
            raise errors.unknown("preset", preset, PRESETS)
        fields = {**DEFAULTS.get(given.get("data", "fashion-cut"), {}), **PRESETS.get(preset or "", {}), **given}
        if "views" not in given and "none" in (fields.get("augment", "none"), fields.get("views", "none")):
            fields["views"] = default_views(fields.get("augment", "none"))
        if "stages" not in given and (own := getattr(streams.named(fields.get("order", "classes")), "stages", None)):
            fields["stages"] = own
        return cls.read(fields)

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> "Spec":
        """Validate fields, with one sentence for the first that is wrong."""
        try:
            return cls(**fields)
        except ValidationError as error:
            raise _sentence(error.errors()[0]) from None

    @property
    def resolved(self) -> Method:
        """The method itself."""
        return registry.resolve(self.method)

    @property
    def source(self) -> tuple[str, int | None, bool]:
        """What its images are loaded by."""
        return self.data, self.size, self.skip_bad

    @property
    def key(self) -> str:
        """A readable prefix, and twelve digits of all that decides the numbers, revisions included."""
        content = {
            **self.model_dump(exclude_defaults=True),  # so that a new field leaves the keys of older runs as they are
            "method": self.resolved.to_json(),
            "revisions": {recipe.name: recipe.revision for recipe, _ in registry.terms(self.method)},
        }
        digits = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
        name = re.sub(r"[^a-z0-9.+]+", "-", self.method.lower()).strip("-")[:40]
        place = re.sub(r"[^a-z0-9]+", "-", self.data.rpartition("/")[2].lower()).strip("-")[:30]
        return f"{name}-{place}-m{self.memory}-s{self.seed}-{digits}"

    @property
    def setting(self) -> str:
        """What runs that differ in the seed alone have in common."""
        return json.dumps(self.model_dump(exclude={"seed"}), sort_keys=True)

    @property
    def training(self) -> Hashable:
        """What runs have in common that train alike; where both forms are tested, one of them serves for the other."""
        method = self.resolved
        if self.forms == "both":
            method = method.but(scoring=replace(method.scoring, test="dot"))
        return self.model_copy(update={"method": ""}), method


def titles(specs: Sequence[Spec], seeds: bool = True) -> list[str]:
    """What to call each of several runs: its method, whatever else they differ in, and its seed."""
    fields = [spec.model_dump() for spec in specs]
    differ = [
        name
        for name in Spec.model_fields
        if name not in ("method", "seed") and len({repr(spec[name]) for spec in fields}) > 1
    ]

    def title(spec: dict[str, Any]) -> str:
        told = [str(spec[name]) if name in ("data", "order") else f"{name} {spec[name]}" for name in differ]
        return " ".join([spec["method"], *told, *([f"seed {spec['seed']}"] if seeds else [])])

    return [title(spec) for spec in fields]


def _sentence(problem: ErrorDetails) -> errors.InputError:
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, errors.InputError):
        return cause
    field = ".".join(str(place) for place in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return errors.unknown("field of a run", field, Spec.model_fields)
    must = problem["msg"].removeprefix("Input should ").replace("'", "")
    return errors.wrong(f"The '{field}' of a run", must, problem["input"])
