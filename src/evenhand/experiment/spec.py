"""A spec: everything that decides a run's numbers, and nothing else. Its key names the run."""

import hashlib
import json
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator, model_validator

from evenhand import backbones, datasets, errors, streams
from evenhand.core import registry
from evenhand.core.method import Method
from evenhand.core.settings import DEFAULTS, LEARNER, PRESETS, RUN, Settings, check_views, default_views
from evenhand.core.sizes import Sizes
from evenhand.core.ways import Ways

BOTH = "cos, dot"  # the tests of older runs with the field forms = "both"
NUMBERS = [name for name, setting in RUN.items() if {int, float} & set(setting.kinds)]
TRUTHS = [name for name, setting in RUN.items() if setting.kinds == (bool,)]


class Spec(Settings, BaseModel):
    """One run: a method, a stream, a network and a seed; its fields are the declared settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator(*NUMBERS, mode="before")
    @classmethod
    def _number(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool):  # which pydantic takes for 0 or 1
            raise errors.wrong(f"The '{info.field_name}' of a run", RUN[str(info.field_name)].must, value)
        return value

    @field_validator(*TRUTHS, mode="before")
    @classmethod
    def _truth(cls, value: Any, info: ValidationInfo) -> Any:
        return errors.truth(f"The '{info.field_name}' of a run", value)

    @field_validator("method")
    @classmethod
    def _method(cls, name: str) -> str:
        known = registry.canonical(name)  # first: it imports nothing, should the spec be a record
        registry.resolve(name)
        return known

    @field_validator("tests")
    @classmethod
    def _tests(cls, text: str) -> str:
        return ", ".join(registry.ways(text))

    @field_validator("data")
    @classmethod
    def _data(cls, name: str) -> str:
        return datasets.check_name(name)

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
        for way in registry.ways(self.tests):
            registry.resolve(registry.retested(self.method, way))  # the name of its row; raises if it does not fit
        check_views("run", self.augment, self.views)
        own = getattr(streams.resolve(self.order), "stages", None)
        if own == 1 and self.stages != 1:
            raise errors.wrong("The 'stages' of a run", f"be 1 in the order {self.order}", self.stages)
        return self

    @classmethod
    def make(cls, preset: str | None = None, **given: Any) -> "Spec":
        """Fill in the dataset's defaults, or a preset's; what is given by hand overrides both."""
        for names in ("method", "tests"):
            registry.adopt(str(given.get(names, "")))
        if preset is not None and preset not in PRESETS:
            raise errors.unknown("preset", preset, PRESETS)
        fields = {**DEFAULTS.get(given.get("data", Settings.data), {}), **PRESETS.get(preset or "", {}), **given}
        augment, views = fields.get("augment", Settings.augment), fields.get("views", Settings.views)
        if "views" not in given and "none" in (augment, views):
            fields["views"] = default_views(augment)
        own = getattr(streams.resolve(fields.get("order", Settings.order)), "stages", None)
        if "stages" not in given and own:
            fields["stages"] = own
        return cls.read(fields)

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> "Spec":
        """Validate fields, with one sentence for the first that is wrong."""
        if isinstance(fields, Mapping) and fields.get("forms") in ("own", "both"):  # as older records have it
            fields = {"tests": BOTH if fields["forms"] == "both" else "", **fields}
            del fields["forms"]
        return errors.validated(cls, fields, "a run", must={name: setting.must for name, setting in RUN.items()})

    @property
    def resolved(self) -> Method:
        """The method itself."""
        return registry.resolve(self.method)

    @property
    def learner(self) -> dict[str, Any]:
        """The settings that are arguments of the learner."""
        return self.model_dump(include=set(LEARNER))

    @property
    def source(self) -> tuple[str, int | None, bool, str]:
        """What its images are loaded by."""
        return self.data, self.size, self.skip_bad, self.columns

    @property
    def key(self) -> str:
        """A readable prefix, and twelve digits of all that decides the numbers, revisions included."""
        given = self.model_dump(exclude_defaults=True)  # so that a new field leaves the keys of older runs as they are
        if self.tests:
            given["tests"] = registry.in_full(self.tests)  # so that a new default does not find older runs
        if self.tests == BOTH:
            del given["tests"]
            given["forms"] = "both"
        content = {
            **given,
            "method": self.resolved.to_json(),
            "revisions": {recipe.name: recipe.revision for recipe, _ in registry.terms(self.method)},
        }
        digits = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
        name = re.sub(r"[^a-z0-9.+]+", "-", self.method.lower()).strip("-")[:40]
        return f"{name}{self.stream}{digits}"

    @property
    def stream(self) -> str:
        """The part of the key that names dataset, memory and seed."""
        place = re.sub(r"[^a-z0-9]+", "-", self.data.rpartition("/")[2].lower()).strip("-")[:30]
        return f"-{place}-m{self.memory}-s{self.seed}-"

    @property
    def setting(self) -> str:
        """What runs that differ in the seed alone have in common."""
        return json.dumps(self.model_dump(exclude={"seed"}), sort_keys=True)

    @property
    def training(self) -> Hashable:
        """What runs have in common that train alike, however they are tested."""
        return self.model_copy(update={"method": "", "tests": ""}), self.resolved.training, self.lag

    @property
    def cost(self) -> float:
        """C_D: what a step costs relative to one of ER with the same settings."""
        return registry.cost(self.method, Sizes(self.batch, self.replay, 2 if self.views == "concat" else 1))

    @property
    def lag(self) -> float:
        """How many batches of the stream arrive while it learns one; if the stream waits, no more than that."""
        return self.cost if self.pace == "realtime" else 1.0

    @property
    def ways(self) -> Ways:
        """The ways in which it is tested: its method's own and the `tests`."""
        return Ways(self.resolved, self.tests)

    def answers(self, spec: "Spec") -> bool:
        """Whether a run of this spec includes all tests of another one."""
        wanted, tested = ({method.test for method in run.ways.methods.values()} for run in (spec, self))
        return spec.training == self.training and wanted <= tested


def titles(specs: Sequence[Spec], seeds: bool = True) -> list[str]:
    """What to call each of several runs: its method, whatever else they differ in, and its seed."""
    fields = [spec.model_dump() for spec in specs]
    differ = [
        name
        for name in Spec.model_fields
        if name not in ("method", "seed") and len({spec[name] for spec in fields}) > 1
    ]

    def title(spec: dict[str, Any]) -> str:
        given = [name for name in differ if spec[name] != ""]
        differing = [str(spec[name]) if name in ("data", "order") else f"{name} {spec[name]}" for name in given]
        return " ".join([spec["method"], *differing, *([f"seed {spec['seed']}"] if seeds else [])])

    return [title(spec) for spec in fields]
