"""The learner: a network, a method and a memory, behind `observe` and `predict`."""

import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from evenhand import errors, files
from evenhand.core import admission, checkpoint, forgetting, inputs, labels, registry
from evenhand.core.compiled import Compiled
from evenhand.core.copies import Copies
from evenhand.core.divergence import DivergenceGuard
from evenhand.core.draws import as_global, generator, seeded
from evenhand.core.exported import exported
from evenhand.core.kept import Kept
from evenhand.core.labels import Label
from evenhand.core.learning import Learning
from evenhand.core.memory import Memory
from evenhand.core.method import Method
from evenhand.core.network import OWNERS, Network, check_free
from evenhand.core.observation import Observation, Prequential
from evenhand.core.optimization import Factory, Optimization, Schedule
from evenhand.core.precision import chosen
from evenhand.core.settings import LEARNER, Settings, check, check_views, default_views, described, plain
from evenhand.core.snapshots import Cache, Snapshots
from evenhand.core.ways import Ways

PURPOSES = ("head", "extra", "network", "retrieval", "storage", "augment/stream", "augment/replay")


class Learner(Learning):
    """Learns a stream batch by batch with a small memory of the past, and predicts at any time.

    Any number of threads may call it. Steps run one at a time; predictions come from the last complete step and never
    wait for the next one. A failed step, even one stopped by Ctrl-C, leaves the learner unchanged.

    Parameters
    ----------
    network
        Any module that ends in a Linear, one of our backbones, or a `Network` (see `Network.of`). It learns in training
        mode, even if you call `eval()`; parameters without `requires_grad` stay frozen, and modules that have only such
        parameters and are in evaluation mode now stay in that mode.
    method
        A name such as "uer" or "uer(alpha=0.3)", or a `Method`.
    {settings}
    augment
        Augmentation of stream and replay: none, crop, scr, or a function that returns inputs of the same shape, whose
        draws from torch's global generator are seeded.
    optimizer
        "sgd", "adam", "adamw" or "rmsprop", with parameters: "sgd(momentum=0.9, weight_decay=1e-4)"; or a function that
        takes the parameters and returns a torch optimizer, which then has its own learning rate.
    schedule
        How the learning rate changes by step: "warmup(steps=100)+cosine(steps=5000)", "linear", "stairs(every=1000,
        factor=0.5)"; or a function that maps the step number to a factor.
    clip
        Maximum gradient norm.
    head
        The name of the Linear to replace, if it is not the last one in the module.
    keep
        One label per row of that Linear, to continue from a trained classifier; by default the head starts empty.
    output
        Where to find the logits in a tuple or dict that the module returns; by default they are found.
    rows
        Number of rows that the head starts with. The softmax runs over all of them, seen or not; by default it runs
        over the classes seen so far. Either way, the head grows when it runs out of rows.
    on_step
        A function that is called with the record of every step, e.g. to log it.
    compile
        Speed up the trunk with torch.compile. This takes about a minute once, and works best with batches of one size.
    device
        A torch device; "auto" uses a GPU if there is one.
    store
        Where to keep the memory, e.g. "cpu" for a model on a GPU; by default on the model's device.

    Attributes
    ----------
    labels
        The labels seen so far, in the order of the head's rows.

    Examples
    --------
    >>> import torch
    >>> from evenhand import Learner
    >>> from evenhand.backbones import MLP
    >>> learner = Learner(MLP((4,)), method="uer", memory=20)
    >>> seen = learner.observe(torch.eye(4), ["north", "east", "south", "west"])
    >>> seen.new, seen.steps
    (['north', 'east', 'south', 'west'], 1)
    """

    @torch.inference_mode(False)
    def __init__(
        self,
        network: nn.Module,
        method: str | Method = "uer",
        *,
        memory: int = 1000,
        replay: int = Settings.replay,
        lr: float = Settings.lr,
        iterations: int = Settings.iterations,
        augment: str | Callable[[Tensor], Tensor] = Settings.augment,
        views: str | None = None,
        passes: str = Settings.passes,
        tests: str = Settings.tests,
        seed: int = Settings.seed,
        optimizer: str | Factory = "sgd",
        schedule: str | Schedule = "constant",
        clip: float | None = None,
        head: str | None = None,
        keep: Sequence[Label] | None = None,
        output: str | int | None = None,
        rows: int = 0,
        on_step: Callable[[Observation], Any] | None = None,
        compile: bool = False,
        precision: str = "fp32",
        device: str = "auto",
        store: str = "",
    ) -> None:
        self.method = registry.resolve(method) if isinstance(method, str) else method
        if not isinstance(self.method, Method):
            raise errors.wrong("The 'method' of a learner", "be a name or a Method", method)
        self.method.to_json()  # raises now if the method cannot be saved
        self.device = inputs.device(device)
        memory, replay, lr, iterations, seed, rows = map(plain, (memory, replay, lr, iterations, seed, rows))
        self.replay, self.iterations, self.seed = replay, iterations, seed
        self.augment, self.passes, self.tests = augment, passes, tests
        self.views = views or default_views(augment)
        settings = {name: getattr(self, name) for name in LEARNER if name not in ("memory", "lr")}
        if callable(augment):
            settings["augment"] = "scr"
        check("learner", memory=memory, lr=lr, precision=precision, **settings)
        check_views("learner", self.augment, self.views)
        self.rows = errors.whole("The number of 'rows' of a learner", rows, 0)
        if on_step is not None and not callable(on_step):
            raise errors.wrong("The 'on_step' of a learner", "be a function", on_step)
        errors.truth("The 'compile' of a learner", compile)
        self.on_step = on_step
        self.memory = Memory(memory, inputs.device(store or device, "store"), self.device)
        registry.adopt(tests)
        self.ways = Ways(self.method, tests)
        for part in self.method.parts("views"):  # what a part requires overrides the settings
            self.views, self.augment = part.views, "scr" if self.augment == "none" else self.augment
        for part in self.method.parts("passes"):
            self.passes = part.passes
        self.generators = {purpose: generator(seed, purpose) for purpose in PURPOSES}
        if keep is not None and (not isinstance(keep, Sequence) or isinstance(keep, str)):
            raise errors.wrong("The labels to 'keep'", "be a list", keep)
        known = [] if keep is None else labels.plain(keep, len(keep))
        self.network = Network.of(network, head=head)
        check_free(self.network)
        try:
            self.network.to(self.device).channels_last().in_precision(chosen(precision, self.device))
            self.network.check_couple(self.method.scoring.couple)
            self.network.output = self.network.output if output is None else output
            with seeded(seed, "modules"):
                for part in self.method.parts("modules"):
                    self.network.extra.update(part.modules(self.network))
            self.network.extra.to(self.device, torch.float32)
            self.network.find_modes()
            self.optimization = Optimization(self.network.parameters(), lr, optimizer, schedule, clip)
            self.compiled = Compiled(self.network.trunk) if compile else None
            self.guard = DivergenceGuard(self.device)
            self.labels, self.row_of, self.steps = self.memory.labels, {}, 0
            self.kept, self.snapshots, self.prequential = Kept(), Snapshots(), Prequential(self)
            self._copies, self._cache, self._shared = Copies(), Cache(), {}
            self.grow(rows)
            if known:
                admission.keep(self, known)
        except BaseException:
            if self.network is not network:
                self.network.give_back()
            raise
        self.network.to_learn()
        OWNERS[self.network.trunk] = weakref.ref(self)

    def __repr__(self) -> str:
        return f"Learner({len(self.labels)} classes, {self.steps} steps, {self.memory})"

    def observe(
        self,
        x: Any,
        y: Sequence[Label] | Tensor,
        *,
        second: tuple[Any, Any] | None = None,
        predict: bool = False,
    ) -> Observation:
        """Learn one batch of the stream; if that fails, the learner stays unchanged.

        Parameters
        ----------
        x
            Samples (n, ...): a tensor, an array, a DataFrame, or a list of samples or Pillow images. uint8 is scaled to
            [0, 1]. For a model with several inputs, a dict of them by name or a tuple.
        y
            Their n labels; a new one grows the head.
        second
            A second batch (x, y) to learn in place of a replay, as in the order iid++; nothing is stored then.
        predict
            Also predict the samples before learning them, and count the correct predictions: see `accuracy`.
        """
        with self.snapshots.turn:
            pairs = admission.checked(self, (x, y), second)
            with self.snapshots.step(self) as before, torch.enable_grad():
                self.network.to_learn()
                batch, replay = admission.batches(self, pairs)
                predicted = self.prequential.ask(self, x, batch, before.labels) if predict else None
                with as_global(self.generators["network"]):
                    losses = self.method.step(self, batch, replay)
                if predict:
                    predicted = self.prequential.count(self, x, predicted, pairs[0][2])
                self._cache.clear()
                self.ways.notify("follow", self)
                self.steps += 1
            observation = Observation(self.steps, self.labels[len(before.labels) :], losses.detached(), predicted)
            if self.on_step is not None:
                self.on_step(observation)
            return observation

    @property
    def accuracy(self) -> float | None:
        """The share of samples that `observe(predict=True)` predicted correctly before learning them."""
        return self.prequential.right / self.prequential.asked if self.prequential.asked else None

    def predict(self, x: Any, *, test: str = "") -> list[Label]:
        """The most likely label of each sample, by the method's own test or one of `tests`; changes nothing."""
        [scores], known = self.ways.scores(self, x, test)
        return [known[row] for row in scores.argmax(1).tolist()]

    def scores(self, x: Any, *, test: str = "") -> Tensor:
        """The score of each label for each sample, (n, labels) in the order of `labels`; changes nothing."""
        return self.ways.scores(self, x, test)[0][0]

    def predict_proba(self, x: Any, *, test: str = "") -> Tensor:
        """The probability of each label for each sample, (n, labels): the softmax of the scores.

        Raises for a nearest class mean, whose scores are similarities, not logits.
        """
        self.ways.check_probable(test)
        return self.scores(x, test=test).softmax(1)

    def top(self, x: Any, count: int = 5, *, test: str = "") -> list[list[tuple[Label, float]]]:
        """The `count` most likely labels of each sample with their scores, the best first."""
        errors.whole("The 'count' of top", plain(count), 1)
        [scores], known = self.ways.scores(self, x, test)
        values, rows = scores.topk(min(count, len(known)), dim=1)
        pairs = zip(values.tolist(), rows.tolist(), strict=True)
        return [[(known[row], value) for value, row in zip(*pair, strict=True)] for pair in pairs]

    def remember(self, x: Any, y: Sequence[Label] | Tensor) -> None:
        """Store samples without learning them, e.g. old data of a pretrained model before the stream begins."""
        forgetting.remember(self, x, y)

    def forget(self, *, label: Label = ..., where: Callable[[Any], Tensor] | None = None) -> int:
        """Erase samples from the memory for good: those of a label, or those for which `where` is true.

        `where` takes samples as tensors like those observed, and returns a boolean for each. Returns how many were
        erased. The weights and files saved earlier may still retain some of them.
        """
        return forgetting.forget(self, label, where)

    def module(self, *, test: str = "") -> nn.Module:
        """A plain module in evaluation mode that maps samples to logits and has `labels`: to deploy or export."""
        return exported(self, test)

    def boundary(self) -> None:
        """Tell the method that a stage has ended; only parts that declare `boundary` listen."""
        with self.snapshots.step(self):
            self.guard.check()
            for part in self.method.parts("boundary"):
                part.boundary(self)
            self._cache.clear()

    def save(self, path: str | Path) -> None:
        """Write everything to one safetensors file, atomically."""
        with self.snapshots.between_steps("Save"):
            files.write_state(Path(path), self.state_dict(), self.facts())

    @classmethod
    def load(cls, path: str | Path, network: nn.Module | None = None, **options: Any) -> Self:
        """Load a saved learner.

        Our own backbones are rebuilt. Pass any other network, built as it was for the saved learner, and again any
        functions that it was given: `augment`, `optimizer`, `schedule`, `on_step`. With the same `compile`, `precision`
        and `device` as before, learning resumes bit for bit.
        """
        return checkpoint.load(cls, path, network, options)


Learner.__doc__ = str(Learner.__doc__).replace(
    "    {settings}\n", described(name for name in (*LEARNER, "precision") if name != "augment")
)
