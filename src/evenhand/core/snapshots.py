"""Snapshots: a learner after its last complete step, to predict with while the next one runs, or to roll back to."""

import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from evenhand import errors
from evenhand.core.cloning import carry_extra_state, fits, tensors
from evenhand.core.copies import Copies
from evenhand.core.kept import Kept
from evenhand.core.memory import Past
from evenhand.core.network import Network
from evenhand.core.precision import undisturbed

if TYPE_CHECKING:
    from evenhand.core.learner import Learner


class Cache(dict[Any, Any]):
    """Values computed from one state; `lock` makes threads wait for each other instead of computing them twice."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.RLock()


class Snapshot:
    """The complete state of a learner after a step.

    Attributes
    ----------
    users
        How many predictions and steps are using it now.
    """

    def __init__(self) -> None:
        self.users = 0
        self.passing = threading.RLock()  # for networks that may store something in a forward pass
        self.copies = Copies()
        self.kept = Kept()

    def take(self, learner: "Learner", state: Any) -> None:
        """Copy the learner's current state; the memory is only watched."""
        self.state: Any = None  # until it is complete
        network = self.copies.take("live", learner.network)
        if network is not getattr(self, "network", None):
            self.network: Network = network.eval().in_precision("fp32").requires_grad_(False)
        self.kept.follow(learner.kept)
        self.memory: Past | None = Past(learner.memory)
        self.labels, self.kind, self.steps = list(learner.labels), learner.kind, learner.steps
        self.prequential = learner.prequential.right, learner.prequential.asked
        self.generators = {name: generator.get_state() for name, generator in learner.generators.items()}
        known = learner.optimization.state()
        self.optimizer = {name: v.clone() if isinstance(v, Tensor) else copy.deepcopy(v) for name, v in known.items()}
        self.options = copy.deepcopy(learner.optimization.options())
        self.groups, self.rates = learner.optimization.groups(learner.network), list(learner.optimization.rates)
        self.cache = Cache()
        self.state = state

    def let_go(self, of: "Snapshot | None") -> None:
        """Stop watching the memory, unless this is in use or is `of`, the latest snapshot."""
        if self is not of and not self.users:
            self.memory = None

    @torch.no_grad()
    def restore(self, learner: "Learner") -> None:
        """Roll the learner back to this state."""
        for live, copied in zip(learner.network.modules(), self.network.modules(), strict=True):
            for name in {*live._buffers.keys()} - {*copied._buffers.keys()}:  # registered by the step itself
                del live._buffers[name]
            for name, tensor in copied._buffers.items():
                known = live._buffers[name] if name in live._buffers else None  # noqa: SIM401 - TorchScript has no get
                fitted = None if tensor is None else _fitted(known, tensor)
                if fitted is not known:
                    live._buffers[name] = fitted
            for name, parameter in copied._parameters.items():
                if parameter is not None:
                    fitted = _fitted(live._parameters[name], parameter)
                    if fitted is not live._parameters[name]:
                        live._parameters[name] = nn.Parameter(fitted)
        carry_extra_state(self.network, learner.network)
        learner.optimization.regroup(learner.network, self.groups)
        learner.optimization.load_state(self.optimizer)
        learner.optimization.set_options(self.options)
        learner.optimization.set_rates(self.rates)
        learner.kept.follow(self.kept)
        if self.memory is not None:
            self.memory.restore()
        learner.labels[:] = self.labels
        learner.row_of = {key: row for key, row in learner.row_of.items() if row < len(self.labels)}
        learner.steps = self.steps
        learner.network.columns, learner.network.output = self.network.columns, self.network.output
        learner.memory.kind = self.kind
        learner.prequential.right, learner.prequential.asked = self.prequential
        learner.prequential.awaited = None
        for name, generator in learner.generators.items():
            generator.set_state(self.generators[name])
        learner._cache.clear()


class Snapshots:
    """Keeps a snapshot of a learner's last complete step, which threads may ask for at any time.

    It is copied at most once per step: when the next step begins, or when a thread asks before that.
    """

    def __init__(self) -> None:
        self.turn = threading.RLock()  # held by whoever changes the learner
        self.lock = threading.RLock()  # held only briefly; a signal handler may predict meanwhile
        self.stepping = False
        self.changes = 0  # counts steps, and changes of the learning rate
        self.last: Snapshot | None = None
        self.pool: list[Snapshot] = []

    @contextmanager
    def step(self, learner: "Learner") -> Iterator[Snapshot]:
        """Change the learner, one thread at a time; if that fails, roll it back."""
        with self.turn, torch.inference_mode(False), undisturbed(learner.device):
            self.stepping = False  # an interrupt may have left it True
            with self.lock:
                before = self._current(learner)
                before.users += 1
                self.stepping = True
            try:
                yield before
            except BaseException:
                before.restore(learner)
                raise
            finally:
                self.changes += 1
                self.stepping = False
                self._release(before)

    @contextmanager
    def between_steps(self, verb: str) -> Iterator[None]:
        """Read the learner itself; waits for another thread's step, and raises within one of this thread."""
        with self.turn:
            if self.stepping:  # in a signal handler, or a function that the step calls
                raise errors.RunError(f"A step is under way. {verb} the learner when it has ended.")
            yield

    @contextmanager
    def asked(self, learner: "Learner") -> Iterator[Snapshot]:
        """A snapshot of the last complete step, which does not change while it is in use."""
        with self.lock, torch.inference_mode(False):
            if not self.stepping:
                learner.guard.check()
            snapshot = self._current(learner)
            snapshot.users += 1
        try:
            with undisturbed(learner.device):
                yield snapshot
        finally:
            self._release(snapshot)

    def _release(self, snapshot: Snapshot) -> None:
        with self.lock:
            snapshot.users -= 1
            snapshot.let_go(self.last)

    def drop(self) -> None:
        """Drop all copies, and what they hold of the memory."""
        with self.lock:
            self.last, self.pool = None, []

    def _current(self, learner: "Learner") -> Snapshot:
        if self.stepping and self.last is not None:
            return self.last
        optimization = learner.optimization  # whose rates and options can be set at any time
        weights = [(id(tensor), tensor._version) for tensor in tensors(learner.network)]
        state = (self.changes, weights, optimization.rates, optimization.options())
        if self.last is None or self.last.state != state:
            fresh = next((snapshot for snapshot in self.pool if not snapshot.users), None) or Snapshot()
            if fresh not in self.pool:
                self.pool.append(fresh)
            if fresh is self.last:
                self.last = None
            fresh.take(learner, state)
            previous, self.last = self.last, fresh
            if previous is not None:
                previous.let_go(fresh)
        return self.last


def _fitted(live: Tensor | None, copied: Tensor) -> Tensor:
    """The live tensor with the copy's values, or a new one if its shape or type has changed."""
    return live.copy_(copied) if live is not None and fits(live, copied) else copied.clone()
