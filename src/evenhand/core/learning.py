"""What a learner offers to the parts of its method: features, losses, the memory, the optimizer and copies."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, cast

import torch
from torch import Generator, Tensor, nn

from evenhand import errors
from evenhand.core import admission, checkpoint
from evenhand.core.augment import with_views
from evenhand.core.batch import Batch
from evenhand.core.cloning import cloned
from evenhand.core.compiled import Compiled
from evenhand.core.copies import Copies
from evenhand.core.divergence import DivergenceGuard
from evenhand.core.gradients import total_norm, trainable
from evenhand.core.inputs import Kind
from evenhand.core.kept import Kept
from evenhand.core.labels import Label
from evenhand.core.memory import Memory
from evenhand.core.method import Method
from evenhand.core.network import Network
from evenhand.core.optimization import Optimization
from evenhand.core.scoring import Phase
from evenhand.core.settings import check, plain
from evenhand.core.snapshots import Cache, Snapshots

if TYPE_CHECKING:
    from evenhand.core.learner import Learner
    from evenhand.core.observation import Prequential
    from evenhand.core.ways import Ways


class Learning:
    """Everything that changes while a method learns.

    Attributes
    ----------
    method
        The method that it learns with.
    labels
        The labels seen so far, in the order of the head's rows.
    kept
        What parts keep from one step to the next.
    """

    method: Method
    network: Network
    memory: Memory
    optimization: Optimization
    generators: dict[str, Generator]
    guard: DivergenceGuard
    compiled: Compiled | None
    snapshots: Snapshots
    ways: "Ways"
    prequential: "Prequential"
    labels: list[Label]
    row_of: dict[str, int]  # by `labels.key`
    kept: Kept
    steps: int
    rates: list[float | None]  # the learning rate of each parameter in a virtual step
    replay: int
    iterations: int
    augment: str | Callable[[Tensor], Tensor]
    views: str
    passes: str
    device: torch.device
    on_step: Callable[[Any], Any] | None
    _copies: Copies
    _cache: Cache
    _shared: dict[Any, Any]  # what the tests of one prediction share

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copy: generators as bytes, without locks and copies."""
        states = {name: generator.get_state().numpy().tobytes() for name, generator in self.generators.items()}
        own = {name: value for name, value in vars(self).items() if name not in ("_cache", "_copies", "snapshots")}
        return {**own, "generators": states}

    @torch.inference_mode(False)
    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy the learner; waits for another thread's step to end."""
        with self.snapshots.between_steps("Copy"):
            made = memo[id(self)] = object.__new__(type(self))
            for network in (self.network, *self.kept.values()):
                if isinstance(network, nn.Module):
                    cloned(network, memo)  # first, since `deepcopy` cannot copy every module
            memo[id(self.on_step)] = self.on_step  # it may belong to a queue or a logger
            made.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return made

    def __setstate__(self, state: dict[str, Any]) -> None:
        if torch.is_inference_mode_enabled():
            raise errors.InputError("A learner unpickled in torch.inference_mode() cannot learn. Unpickle it outside.")
        vars(self).update(state, _cache=Cache(), _copies=Copies(), snapshots=Snapshots())
        self.generators = {name: Generator() for name in state["generators"]}
        for name, content in state["generators"].items():
            self.generators[name].set_state(torch.frombuffer(bytearray(content), dtype=torch.uint8))

    def features(self, *batches: Batch | None) -> list[Tensor]:
        """The features of each batch's inputs, in one joint pass or one pass each; (0, dim) where there is no batch."""
        if self.passes == "separate":
            nothing = torch.empty(0, self.network.head.dim, device=self.device)
            found = [self.network.features(batch.inputs) if batch else nothing for batch in batches]
        else:
            trunk = (
                self.compiled
                if self.compiled and self.compiled.serves(cast("Learner", self), batches)
                else self.network.trunk
            )
            inputs = [batch.inputs if batch else None for batch in batches]
            h = self.network.through(trunk, torch.cat([x for x in inputs if x is not None]))
            found = list(h.split([0 if x is None else len(x) for x in inputs]))
        self.prequential.passed(self, batches[0], found[0])
        return found

    def expect(self, phase: Phase, h: Tensor, criterion: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a criterion to the logits of h, mixed as the scoring says for this phase."""
        scoring = self.method.scoring
        mix = scoring.learn if phase == "learn" else scoring.replay
        return mix.expect(lambda form: criterion(self.network.logits(h, form, scoring.couple)))

    def recall(self, slots: Tensor) -> Batch | None:
        """Read samples from the memory and draw their views; None if there are none."""
        return self.viewed(self.memory.read(slots), "augment/replay") if len(slots) else None

    def viewed(self, batch: Batch, purpose: str) -> Batch:
        """The same batch with its views drawn."""
        return with_views(batch, self.augment, self.views, self.generators[purpose])

    def descend(self, loss: Tensor, module: nn.Module | None = None) -> None:
        """Take one optimizer step down the loss, with all parameters or only those of one module."""
        moving = trainable(module or self.network)
        self.follow(loss, dict(zip(moving, torch.autograd.grad(loss, moving, allow_unused=True), strict=True)))

    def follow(self, loss: Tensor, gradients: Mapping[nn.Parameter, Tensor | None]) -> None:
        """Take one optimizer step along the gradients of some parameters, if they and the loss are finite."""
        norm = total_norm(gradients.values())
        self.guard.record(self.steps, loss.detach(), norm)
        self.optimization.follow(self.steps, gradients, norm)
        self._cache.clear()

    def grow(self, rows: int) -> None:
        """Add rows to the head and to whatever grows with it."""
        before = list(self.network.parameters())
        self.network.grow(rows, self.generators["head"], self.generators["extra"])
        self.optimization.replace(before, list(self.network.parameters()))
        self.ways.notify("grow", cast("Learner", self))
        self._cache.clear()

    @property
    def kind(self) -> Kind | None:
        """The kind of all samples, known from the first ones."""
        return self.memory.kind

    @property
    def lr(self) -> float | None:
        """The learning rate, before the schedule; it can be set at any time. None if the optimizer finds its own."""
        return self.optimization.lr

    @lr.setter
    def lr(self, value: float) -> None:
        check("learner", lr=plain(value))
        with self.snapshots.turn:
            self.optimization.lr = plain(value)
            self.snapshots.changes += 1

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The torch optimizer."""
        return self.optimization.optimizer

    @property
    def conditions(self) -> dict[str, Any]:
        """The conditions it computes under, as a run records them; see `settings.Conditions`."""
        return {"compile": self.compiled is not None, "precision": self.network.precision}

    def eval_copy(self) -> Network:
        """A copy of the network in evaluation mode and float32; the live one never leaves training mode."""
        return self.cached("eval", lambda: self._copy("eval").eval().in_precision("fp32"))

    def folded_copy(self) -> Network:
        """A copy of the network in evaluation mode, with batch normalisation folded into the convolutions."""
        return self.cached("folded", lambda: self._copies.fold("folded", self.network))

    def test_features(self, x: Tensor) -> Tensor:
        """The features of a test's inputs by `test_copy`, computed once for all tests that use the same weights."""
        asked, h = self._shared.get(self.method.weights, (None, None))
        if asked is not x or h is None:
            h = self.test_copy().features(x)
            self._shared[self.method.weights] = (x, h)
        return h

    def test_copy(self) -> Network:
        """A folded copy of the network that is tested."""
        weights = self.method.weights
        return self.cached("test", lambda: self._copies.fold(("test", weights), weights(cast("Learner", self))))

    @contextmanager
    def scratch_copy(self) -> Iterator[Network]:
        """Work on a copy of the network, whose weights and running statistics are discarded afterwards."""
        self.rates = self.optimization.rates_of(self.network.parameters(), self.steps)
        live, self.network = self.network, self._copy("scratch")
        try:
            yield self.network
        finally:
            self.network = live

    def _copy(self, name: str) -> Network:
        """A copy of the network, frozen and thawed where it is now."""
        copied = self._copies.take(name, self.network)
        for own, live in zip(copied.parameters(), self.network.parameters(), strict=True):
            own.requires_grad_(live.requires_grad)
        return copied

    def changed(self) -> None:
        """Drop what was computed from the network, the memory and kept values; call it after changing them by hand."""
        with self.snapshots.turn:
            self._cache.clear()
            self._copies = Copies()
            self.snapshots.drop()

    def cached(self, name: str, compute: Callable[[], Any]) -> Any:
        """The result of a computation on the memory and the tested weights, reused until either changes."""
        key = self.method.weights, name
        with self._cache.lock:
            if key not in self._cache:
                self._cache[key] = compute()
            return self._cache[key]

    def facts(self) -> dict[str, Any]:
        """Everything except tensors, as JSON: method, settings, labels, steps."""
        return checkpoint.facts(cast("Learner", self))

    def state_dict(self) -> dict[str, Tensor]:
        """Every tensor that changes, by name."""
        self.guard.check()
        return checkpoint.tensors(cast("Learner", self))

    def load_state_dict(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Load what `state_dict` and `facts` returned."""
        learner = cast("Learner", self)
        with self.snapshots.step(learner):
            admission.register(learner, checkpoint.labels(facts))
            if self.labels != checkpoint.labels(facts):
                raise errors.InputError(
                    "This learner has seen other labels, or in another order. Load the state into a new one."
                )
            checkpoint.restore(learner, tensors, facts)
            self._cache.clear()
