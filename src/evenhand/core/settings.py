"""Settings: name, type, limits, default and help of each, declared here and nowhere else.

They are fields of a spec, of a run's JSON and of grid files, and flags of the command line; a `Learner` checks its
arguments against them; `scripts/settings_page.py` writes their page of the docs.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt

from evenhand import errors

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


class Settings:
    """What determines the results of a run; all of it enters the run's key."""

    method: Annotated[str, "Method with its parameters, e.g. uer(alpha=0.3) or mir+uer."]
    data: Annotated[
        str, "Dataset: a name listed by evenhand data, or your own as folder:PATH, npz:PATH or hf:PATH."
    ] = "fashion-cut"
    size: Annotated[int | None, Ge(1), "Resize custom images to this side length."] = None
    skip_bad: Annotated[bool, "Skip custom images that cannot be read, and list them."] = False
    columns: Annotated[str, "Columns of an hf: dataset that hold images and labels, e.g. photo,animal."] = ""
    order: Annotated[
        str,
        'Order of the stream: classes, iid, iid++, "blurry(disjoint=50, blur=10)", "smooth(width=0.25)" or '
        '"domains(strength=1)".',
    ] = "classes"
    pace: Annotated[
        Literal["wait", "realtime"],
        "Whether the stream waits for the learner or runs on (realtime): then a method with C_D = 1.5 misses every "
        "third batch.",
    ] = "wait"
    imbalance: Annotated[float, Ge(1), "Long tail: size of the largest class relative to the smallest."] = 1.0
    stages: Annotated[int, Ge(1), "Number of class groups that arrive one after another."] = 5
    tested: Annotated[
        Literal["test", "validation"], "Evaluate on the test set, or on a held-out tenth of the training samples."
    ] = "test"
    tests: Annotated[
        str, 'Further ways to test the same training, comma-separated: dot, cos, ema, "ema(decay=0.995)+ncm", ...'
    ] = ""
    memory: Annotated[int, Ge(0), "Number of samples the memory can hold."] = 200
    seed: Annotated[int, Ge(0), "Seed of all random draws."] = 0
    batch: Annotated[int, Ge(1), "Samples per step from the stream."] = 10
    keep_partial: Annotated[bool, "Also learn the last batch of a stage if it is smaller than the others."] = False
    replay: Annotated[int, Ge(1), "Samples per step from the memory."] = 10
    iterations: Annotated[int, Ge(1), "How many times to learn each batch before storing it."] = 1
    lr: Annotated[float, Gt(0), "Learning rate."] = 0.1
    backbone: Annotated[
        str, 'Network: reduced_resnet18, small_cnn or mlp; with parameters, e.g. "reduced_resnet18(width=64)".'
    ] = "reduced_resnet18"
    neck: Annotated[bool, "Insert a linear layer before the head (the paper's Table 4)."] = False
    softmax: Annotated[
        Literal["seen", "all"], "Softmax over the classes seen so far, or over all classes of the dataset."
    ] = "seen"
    augment: Annotated[
        Literal["none", "crop", "scr"],
        "Augment images of stream and memory: shift and flip them (crop), or crop, flip and recolour them (scr).",
    ] = "none"
    views: Annotated[
        Literal["none", "replace", "concat"],
        "Show the augmented view alone (replace), or together with the raw one (concat).",
    ] = "none"
    passes: Annotated[
        Literal["joint", "separate"],
        "Send stream and replay through the network together or separately; this matters for batch normalisation.",
    ] = "joint"


Precision = Literal["fp32", "bf16", "auto"]
RECORDED = {"on": True, "off": False}


@dataclass(frozen=True)
class Conditions:
    """How a run is computed: recorded with it, but not part of its key. "auto" resumes a run as it was started."""

    compile: Annotated[
        Literal["auto", "on", "off"],
        "Speed up the network with torch.compile; auto does so only in runs that are long enough to benefit.",
    ] = "auto"
    precision: Annotated[
        Precision,
        "Precision of the network's trunk: float32, bfloat16, or auto, which is bfloat16 if the hardware supports it.",
    ] = "fp32"

    def recorded(self) -> dict[str, Any]:
        """The conditions that are not "auto", as a run records them."""
        return {name: RECORDED.get(value, value) for name, value in asdict(self).items() if value != "auto"}

    def as_started(self, environment: Mapping[str, Any]) -> "Conditions":
        """The same conditions, with "auto" replaced by what a run has recorded."""
        spelled = {recorded: value for value, recorded in RECORDED.items()}
        unset = [name for name, value in asdict(self).items() if value == "auto" and name in environment]
        return replace(self, **{name: spelled.get(environment[name], environment[name]) for name in unset})


@dataclass(frozen=True)
class Setting:
    """One declared setting."""

    name: str
    hint: Any
    help: str
    limit: Ge | Gt | None
    default: Any

    @property
    def kinds(self) -> tuple[type, ...]:
        """The types a value may have; () for a choice."""
        hints = get_args(self.hint) or (self.hint,)
        return () if self.choices else tuple(hint for hint in hints if hint is not NoneType)

    @property
    def choices(self) -> tuple[str, ...]:
        """The values to choose from, if it is a choice."""
        return get_args(self.hint) if get_origin(self.hint) is Literal else ()

    @property
    def must(self) -> str:
        """What a value must be, as the end of a sentence.

        >>> RUN["replay"].must, RUN["lr"].must, RUN["augment"].must
        ('be a whole number of at least 1', 'be a number above 0', 'be one of none, crop, scr')
        """
        if self.choices:
            return f"be one of {', '.join(self.choices)}"
        kind = {bool: "True or False", str: "a string", int: "a whole number", float: "a number"}[self.kinds[0]]
        if isinstance(self.limit, Gt):
            return f"be {kind} above {self.limit.gt}"
        return f"be {kind} of at least {self.limit.ge}" if self.limit else f"be {kind}"

    def check(self, value: Any, owner: str) -> None:
        """Raise unless this is a valid value."""
        if value is None and NoneType in get_args(self.hint):
            return
        numbers = (int, float) if float in self.kinds else self.kinds
        valid = value in self.choices if self.choices else isinstance(value, numbers)
        if isinstance(value, bool) and bool not in self.kinds:
            valid = False
        if valid and self.limit is not None:
            above = value > self.limit.gt if isinstance(self.limit, Gt) else value >= self.limit.ge
            valid = above and value < math.inf
        if not valid:
            raise errors.wrong(f"The '{self.name}' of a {owner}", self.must, value)


def declared(model: type) -> dict[str, Setting]:
    """The settings that a class declares, by name."""
    found = {}
    for name, annotated in get_type_hints(model, include_extras=True).items():
        hint, *metadata = get_args(annotated)
        [help] = [item for item in metadata if isinstance(item, str)]
        limit = next((item for item in metadata if isinstance(item, Ge | Gt)), None)
        found[name] = Setting(name, hint, help, limit, getattr(model, name, ...))
    return found


RUN, CONDITIONS = declared(Settings), declared(Conditions)
# Settings that are also arguments of `Learner`.
LEARNER = ("memory", "replay", "lr", "iterations", "augment", "views", "passes", "tests", "seed")


def check(owner: str, **values: Any) -> None:
    """Raise for the first value that its declaration does not allow."""
    for name, value in values.items():
        (RUN | CONDITIONS)[name].check(value, owner)


def plain(value: Any) -> Any:
    """A numpy number as a Python one."""
    return value.item() if type(value).__module__ == "numpy" and not value.shape else value


def check_views(owner: str, augment: object, views: str) -> None:
    """Raise unless there are views and an augmentation, or neither."""
    if augment == "none" != views:
        then = "To use views, set augment to crop or scr."
        raise errors.wrong(f"The 'views' of a {owner}", "be none without an augmentation", views, then)
    if augment != "none" == views:
        raise errors.wrong(f"The 'views' of a {owner}", "be replace or concat with an augmentation", views)


def default_views(augment: object) -> str:
    """An augmentation replaces the raw view by default."""
    return "none" if augment == "none" else "replace"


def described(names: Iterable[str]) -> str:
    """The entries of settings in the "Parameters" of a docstring."""
    lines = []
    for setting in ((RUN | CONDITIONS)[name] for name in names):
        choices = f" One of {', '.join(setting.choices)}." if setting.choices else ""
        lines += [f"    {setting.name}\n", f"        {setting.help}{choices}\n"]
    return "".join(lines)
