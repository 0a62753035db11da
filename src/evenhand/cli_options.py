"""Options that several commands share: how a run is set, and where runs are made."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from evenhand.cli_data import prepare, use

if TYPE_CHECKING:
    from evenhand.experiment.engine import Outcome
    from evenhand.experiment.spec import Spec

Flag = Annotated[bool, Parameter(negative=())]
Compile = Literal["auto", "on", "off"]
COMPILE: dict[Compile, bool | None] = {"auto": None, "on": True, "off": False}


@Parameter(name="*", group=Group("The run", sort_key=1))
@dataclass(frozen=True)
class Setting:
    """How a run is set, but for its method and seed; what is not given is the dataset's own default.

    Parameters
    ----------
    data
        The dataset: a name that evenhand data lists, or your own as folder:PATH, npz:PATH or hf:PATH.
    data_dir
        Where datasets lie; EVENHAND_DATA says the same.
    size
        The side to which images of your own are brought.
    skip_bad
        Leave out images of your own that cannot be read, and say which.
    order
        classes, iid, iid++, "blurry(disjoint=50, blur=10)", "smooth(width=0.25)", "domains(strength=1)".
    imbalance
        Samples of the most frequent class for one of the rarest (1): a long tail.
    stages
        Groups of classes that come one after the other.
    memory
        Samples that may be kept.
    batch
        Samples a step from the stream (10).
    replay
        Samples a step from the memory (10).
    iterations
        Times each batch is learned (1).
    lr
        Learning rate of SGD (0.1).
    backbone
        reduced_resnet18, small_cnn or mlp, with parameters: "reduced_resnet18(width=64)".
    neck
        Put a further linear layer before the head (the paper's Table 4).
    augment
        Augmentation of stream and replay.
    views
        Show the augmented view alone (replace), or beside the raw one (concat).
    passes
        Stream and replay in one forward pass or two.
    softmax
        Over the classes seen so far, or over all that will come.
    forms
        Test as the method says, or by dot products and cosines both (the paper's Table 1).
    preset
        How images are shown: plain (as they are), or paper (with augmented views), which its datasets have anyway.
    """

    data: str = "fashion-cut"
    data_dir: Path | None = None
    size: int | None = None
    skip_bad: bool | None = None
    order: str | None = None
    imbalance: float | None = None
    stages: int | None = None
    memory: int | None = None
    batch: int | None = None
    replay: int | None = None
    iterations: int | None = None
    lr: float | None = None
    backbone: str | None = None
    neck: bool | None = None
    augment: Literal["none", "crop", "scr"] | None = None
    views: Literal["none", "replace", "concat"] | None = None
    passes: Literal["joint", "separate"] | None = None
    softmax: Literal["seen", "all"] | None = None
    forms: Literal["own", "both"] | None = None
    preset: str | None = None

    def fields(self) -> dict[str, Any]:
        """The fields of a spec that were given."""
        others = ("data_dir", "preset")
        return {name: value for name, value in asdict(self).items() if value is not None and name not in others}

    def prepare(self) -> None:
        """Make the data ready, so that from then on they load at once."""
        use(self.data_dir)
        prepare(self.data, self.size, self.skip_bad or False)


@Parameter(name="*", group=Group("Where it is made", sort_key=2))
@dataclass(frozen=True)
class Place:
    """Where runs are made.

    Parameters
    ----------
    engine
        Here one after the other (inline), in processes, or on a Ray cluster; auto uses as many processes as pay.
    address
        Of the Ray cluster; without one, the cluster of this machine, or a new one.
    workers
        Runs at a time; on one machine, workers times threads never exceed the cores.
    threads
        Threads of each run; its CPUs on a cluster.
    gpus
        Of each run on a cluster; a fraction shares one.
    shared
        All nodes of the cluster see the root: runs write there, and go on elsewhere when a node is lost.
    retries
        Times that a run is tried again after a fault, or when its worker died.
    """

    engine: Literal["auto", "inline", "processes", "ray"] = "auto"
    address: str | None = None
    workers: int | None = None
    threads: int | None = None
    gpus: float = 0
    shared: Flag = False
    retries: int = 2

    def check(self) -> None:
        """Name a wrong number before any data are read."""
        from evenhand import errors

        errors.whole("The number of --retries", self.retries, 0)
        errors.number("The number of --gpus", self.gpus, 0)
        for name, value in (("workers", self.workers), ("threads", self.threads)):
            if value is not None:
                errors.whole(f"The number of --{name}", value, 1)
        if self.engine != "ray" and (self.address or self.gpus or self.shared):
            raise errors.InputError("--address, --gpus and --shared are of a cluster: use them with --engine ray.")
        if self.engine == "inline" and (self.workers or 1) > 1:
            raise errors.wrong("The number of --workers", "be 1 where runs are made inline", self.workers)

    def told(self) -> dict[str, Any]:
        """The options that were given another value than their default."""
        return {name: value for name, value in asdict(self).items() if value != getattr(PLACE, name)}

    def run(self, specs: "Sequence[Spec]", root: Path, **how: Any) -> "list[Outcome]":
        """Make runs and show how they go; `how` are further fields of `How`."""
        from evenhand.experiment.engine import How, run_all
        from evenhand.watch import Watch

        made = How(retries=self.retries, address=self.address, gpus=self.gpus, shared=self.shared, **how)
        with Watch(list(specs), until=made.until) as watch:
            return run_all(
                specs, root, made, engine=self.engine, workers=self.workers, threads=self.threads, listen=watch
            )

    def at_once(self, trials: int, seeds: int) -> int:
        """How many points of a search are tried at a time: as many as there are workers for all their seeds."""
        from evenhand.experiment.engine import Share

        if self.engine == "inline":
            return 1
        workers, threads = self.workers, self.threads
        if self.engine != "ray" or workers is None:  # the cores of a cluster are not known here
            workers = Share.of(trials * seeds, workers, threads if self.engine != "ray" else None).workers
        return workers // seeds or 1


def print_json(value: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(value, indent=2, allow_nan=False))


SETTING, PLACE = Setting(), Place()
