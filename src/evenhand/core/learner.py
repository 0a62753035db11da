"""The learner: everything that changes while a method learns, behind `observe` and `predict`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch
from torch import Generator, Tensor, nn
from torch.nn.utils import get_total_norm

from evenhand import errors, files
from evenhand.core import admission, checkpoint, inputs, registry
from evenhand.core.augment import with_views
from evenhand.core.batch import Batch
from evenhand.core.compiled import Compiled
from evenhand.core.copies import Copies, folded
from evenhand.core.divergence import DivergenceGuard
from evenhand.core.draws import as_global, generator, seeded
from evenhand.core.gradients import trainable
from evenhand.core.inputs import Kind, Label
from evenhand.core.kept import Kept
from evenhand.core.memory import Memory
from evenhand.core.method import Method
from evenhand.core.network import Network
from evenhand.core.precision import chosen
from evenhand.core.scoring import Phase
from evenhand.core.settings import LEARNER, Settings, check, default_views, described
from evenhand.core.ways import Ways

PURPOSES = ("head", "extra", "network", "retrieval", "storage", "augment/stream", "augment/replay")


class Learner:
    """Learns a stream batch by batch with a small memory of the past, and predicts at any time.

    Parameters
    ----------
    network
        A `Network`, one of our backbones, or any module that ends in a Linear (see `Network.of`). It is put into
        training mode; parameters without `requires_grad` stay frozen.
    method
        A name such as "uer" or "uer(alpha=0.3)", or a `Method`.
    {settings}
    rows
        Number of rows that the head starts with. The softmax runs over all of them, seen or not; by default it runs
        over the classes seen so far. Either way new classes grow the head.
    compile
        Speed up the trunk with torch.compile. This takes about a minute once, and wants batches of one size.
    device
        A torch device; "auto" takes a GPU if there is one.

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
    >>> learner.observe(torch.eye(4), ["north", "east", "south", "west"])
    >>> learner.labels
    ['north', 'east', 'south', 'west']
    """

    def __init__(
        self,
        network: nn.Module,
        method: str | Method = "uer",
        *,
        memory: int = 1000,
        replay: int = Settings.replay,
        lr: float = Settings.lr,
        iterations: int = Settings.iterations,
        augment: str = Settings.augment,
        views: str | None = None,
        passes: str = Settings.passes,
        tests: str = Settings.tests,
        seed: int = Settings.seed,
        rows: int = 0,
        compile: bool = False,
        precision: str = "fp32",
        device: str = "auto",
    ) -> None:
        self.method = registry.resolve(method) if isinstance(method, str) else method
        if not isinstance(self.method, Method):
            raise errors.wrong("The 'method' of a learner", "be a name or a Method", method)
        self.device = inputs.device(device)
        self.replay, self.lr, self.iterations, self.seed = replay, lr, iterations, seed
        self.augment, self.views, self.passes, self.tests = augment, views or default_views(augment), passes, tests
        settings = {name: getattr(self, name) for name in LEARNER if name != "memory"}
        check("learner", memory=memory, precision=precision, **settings)
        if (self.views == "none") != (self.augment == "none"):
            raise errors.InputError(f"augment='{self.augment}' and views='{self.views}' contradict each other.")
        self.rows = errors.whole("The number of 'rows' of a learner", rows, 0)
        self.memory = Memory(memory, self.device)
        self.ways = Ways(self.method, tests)
        for part in self.method.parts("views"):  # what a part requires wins over the settings
            self.views, self.augment = part.views, "scr" if self.augment == "none" else self.augment
        for part in self.method.parts("passes"):
            self.passes = part.passes
        self.generators: dict[str, Generator] = {purpose: generator(seed, purpose) for purpose in PURPOSES}
        self.network = Network.of(network).to(self.device).train()
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.network.in_precision(chosen(precision, self.device)).check_couple(self.method.scoring.couple)
        with seeded(seed, "modules"):
            for part in self.method.parts("modules"):
                self.network.extra.update(part.modules(self.network))
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=lr, foreach=True)
        self.compiled = Compiled(self.network.trunk) if errors.truth("The 'compile' of a learner", compile) else None
        self.guard = DivergenceGuard(self.device)
        self.labels: list[Label] = []
        self.row_of: dict[str, int] = {}  # by `inputs.label_key`
        self.kind: Kind | None = None  # of all samples, known from the first ones
        self.steps = 0
        self.kept, self._copies = Kept(), Copies()
        self._cache: dict[tuple[Any, str], Any] = {}
        self.grow(rows)

    def __repr__(self) -> str:
        return f"Learner({len(self.labels)} classes, {self.steps} steps, {self.memory})"

    # What a user calls ------------------------------------------------------------------------------------------------

    def observe(self, x: Any, y: Sequence[Label] | Tensor, *, second: tuple[Any, Any] | None = None) -> None:
        """Learn one batch of the stream.

        Parameters
        ----------
        x
            Images (n, c, h, w), uint8 or floats in [0, 1], or vectors (n, d).
        y
            Their n labels; a new one grows the head.
        second
            A second batch (x, y) to learn in place of a replay, as the order iid++ has it; nothing is stored then.
        """
        batch, replay = admission.batches(self, (x, y), second)
        buffers = [buffer.clone() for buffer in self.network.buffers()]
        try:
            with as_global(self.generators["network"]):
                self.method.step(self, batch, replay)
        except BaseException:
            for buffer, before in zip(self.network.buffers(), buffers, strict=True):
                buffer.copy_(before)
            raise
        finally:
            self._cache.clear()
        self.ways.notify("follow", self)
        self.steps += 1

    def predict(self, x: Any, *, test: str = "") -> list[Label]:
        """The most likely label of each sample, by the method's own test or one of `tests`; changes nothing."""
        return [self.labels[row] for row in self.scores(x, test=test).argmax(1).tolist()]

    def scores(self, x: Any, *, test: str = "") -> Tensor:
        """The score of each label for each sample, (n, labels) in the order of `labels`; changes nothing."""
        return self.ways.scores(self, x, test)[0]

    def boundary(self) -> None:
        """Tell the method that a stage has ended; only parts that declare `boundary` listen."""
        self.guard.check()
        for part in self.method.parts("boundary"):
            part.boundary(self)
        self._cache.clear()

    def save(self, path: str | Path) -> None:
        """Write everything to one safetensors file, whole or not at all."""
        files.write_state(Path(path), self.state_dict(), self.facts())

    @classmethod
    def load(
        cls,
        path: str | Path,
        network: nn.Module | None = None,
        *,
        compile: bool = False,
        precision: str = "fp32",
        device: str = "auto",
    ) -> Self:
        """Read a learner back, to the bit.

        Our own backbones are rebuilt; any other network must be passed, built as it was for the saved learner. With the
        same `compile`, `precision` and `device` as before it resumes to the same bits.
        """
        return checkpoint.load(cls, path, network, compile=compile, precision=precision, device=device)

    # What the parts of a method use -----------------------------------------------------------------------------------

    def features(self, *batches: Batch | None) -> list[Tensor]:
        """The features of each batch's inputs, in one joint pass or one pass each; (0, dim) where there is no batch."""
        if self.passes == "separate":
            nothing = torch.empty(0, self.network.head.dim, device=self.device)
            return [self.network.features(batch.inputs) if batch else nothing for batch in batches]
        trunk = self.compiled if self.compiled and self.compiled.serves(self, batches) else self.network.trunk
        inputs = [batch.inputs if batch else None for batch in batches]
        h = self.network.through(trunk, torch.cat([x for x in inputs if x is not None]))
        return list(h.split([0 if x is None else len(x) for x in inputs]))

    def expect(self, phase: Phase, h: Tensor, criterion: Callable[[Tensor], Tensor]) -> Tensor:
        """The criterion of the logits of h, mixed as the scoring says for this phase.

        The sum over forms of weight * criterion(logits): the one place where dot and cos meet.
        """
        scoring = self.method.scoring
        mix = scoring.learn if phase == "learn" else scoring.replay
        terms = [weight * criterion(self.network.logits(h, form, scoring.couple)) for form, weight in mix]
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]

    def recall(self, slots: Tensor) -> Batch | None:
        """Read samples from the memory and draw their views; None if there are none."""
        return self.viewed(self.memory.read(slots), "augment/replay") if len(slots) else None

    def viewed(self, batch: Batch, purpose: str) -> Batch:
        """The same batch with its views drawn."""
        return with_views(batch, self.augment, self.views, self.generators[purpose])

    def descend(self, loss: Tensor, module: nn.Module | None = None) -> None:
        """Take one step of the optimizer down the loss, with all parameters or only those of one module."""
        moving = trainable(module or self.network)
        self.follow(loss, dict(zip(moving, torch.autograd.grad(loss, moving, allow_unused=True), strict=True)))

    def follow(self, loss: Tensor, gradients: Mapping[nn.Parameter, Tensor | None]) -> None:
        """Take one step of the optimizer along the gradients of some parameters, if they and the loss are finite."""
        norm = get_total_norm([gradient for gradient in gradients.values() if gradient is not None])
        self.guard.record(self.steps, loss.detach(), norm)
        for parameter in self.network.parameters():
            parameter.grad = gradients.get(parameter)
        self.optimizer.step()
        self._cache.clear()

    def grow(self, rows: int) -> None:
        """Give the head, and whatever grows with it, more rows."""
        self.network.grow(rows, self.generators["head"], self.generators["extra"])
        self.optimizer.param_groups[0]["params"] = list(self.network.parameters())
        self.ways.notify("grow", self)
        self._cache.clear()

    @property
    def conditions(self) -> dict[str, Any]:
        """How it computes, as a run records it; see `settings.Conditions`."""
        return {"compile": self.compiled is not None, "precision": self.network.precision}

    def eval_copy(self) -> Network:
        """A copy of the network in evaluation mode and float32; the live one never leaves training mode."""
        return self.cached("eval", lambda: self._copies.take("eval", self.network).eval().in_precision("fp32"))

    def folded_copy(self) -> Network:
        """A copy of the network in evaluation mode, with batch normalisation folded into the convolutions."""
        return self.cached("folded", lambda: folded(self.network))

    def test_features(self, x: Tensor) -> Tensor:
        """The features of a test's inputs by `test_copy`, computed once for all tests that ask the same weights."""
        last = self.cached("test/features", dict)
        if last.get("x") is not x:
            last |= {"x": x, "h": self.test_copy().features(x)}
        return last["h"]

    def test_copy(self) -> Network:
        """A folded copy of the network that answers a test."""
        return self.cached("test", lambda: folded(self.method.weights(self)))

    @contextmanager
    def scratch_copy(self) -> Iterator[Network]:
        """Work on a copy of the network, whose weights and running statistics are thrown away afterwards."""
        live, self.network = self.network, self._copies.take("scratch", self.network)
        try:
            yield self.network
        finally:
            self.network = live

    def cached(self, name: str, compute: Callable[[], Any]) -> Any:
        """The result of a computation on memory and the weights asked, reused until either changes."""
        key = self.method.weights, name
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]

    # State ------------------------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Everything except tensors, as JSON: method, settings, labels, steps."""
        return checkpoint.facts(self)

    def state_dict(self) -> dict[str, Tensor]:
        """Every tensor that changes, by name."""
        self.guard.check()
        return checkpoint.tensors(self)

    def load_state_dict(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Take over what `state_dict` and `facts` returned."""
        admission.register(self, checkpoint.labels(facts))
        checkpoint.restore(self, tensors, facts)
        self._cache.clear()


Learner.__doc__ = str(Learner.__doc__).replace("    {settings}\n", described((*LEARNER, "precision")))
