"""Snapshots: a learner as its last complete step left it, to predict with while the next one runs, or to go back to."""

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from evenhand.core.cloning import tensors
from evenhand.core.copies import Copies
from evenhand.core.kept import Kept
from evenhand.core.memory import Past
from evenhand.core.network import Network

if TYPE_CHECKING:
    from evenhand.core.learner import Learner


class Cache(dict[Any, Any]):
    """What was computed of one state; `lock` makes threads wait for each other instead of computing it twice."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Cache, ()


class Snapshot:
    """The complete state of a learner, after a step.

    Attributes
    ----------
    users
        How many predictions are computed with it now.
    """

    def __init__(self) -> None:
        self.users = 0
        self.copies = Copies()
        self.kept = Kept()

    def take(self, learner: "Learner", state: Hashable) -> None:
        """Copy what the learner is now; the memory is only watched."""
        self.state = state
        network = self.copies.take("live", learner.network)
        if network is not getattr(self, "network", None):
            self.network: Network = network.eval().in_precision("fp32").requires_grad_(False)
        self.kept.follow(learner.kept)
        self.memory = Past(learner.memory)
        self.labels, self.kind, self.steps = list(learner.labels), learner.kind, learner.steps
        self.prequential = learner.prequential.right, learner.prequential.asked
        self.generators = {name: generator.get_state() for name, generator in learner.generators.items()}
        known = learner.optimization.state()
        self.optimizer = {name: v.clone() if isinstance(v, Tensor) else v for name, v in known.items()}
        self.cache = Cache()

    @torch.no_grad()
    def restore(self, learner: "Learner") -> None:
        """Put the learner back."""
        old = list(learner.network.parameters())
        for live, copied in zip(learner.network.modules(), self.network.modules(), strict=True):
            for name, tensor in copied._buffers.items():
                live._buffers[name] = None if tensor is None else _fitted(live._buffers[name], tensor)
            for name, parameter in copied._parameters.items():
                if parameter is not None:
                    fitted = _fitted(live._parameters[name], parameter)
                    if fitted is not live._parameters[name]:
                        live._parameters[name] = nn.Parameter(fitted)
        learner.optimization.replace(old, list(learner.network.parameters()))
        learner.optimization.load_state(self.optimizer)
        learner.kept.follow(self.kept)
        self.memory.restore()
        learner.labels[:] = self.labels
        learner.row_of = {key: row for key, row in learner.row_of.items() if row < len(self.labels)}
        learner.kind, learner.steps = self.kind, self.steps
        learner.prequential.right, learner.prequential.asked = self.prequential
        for name, generator in learner.generators.items():
            generator.set_state(self.generators[name])
        learner._cache.clear()


class Snapshots:
    """Keeps the last complete step of a learner at hand; threads may ask at any time.

    A copy is made at most once a step: when the step begins, or when somebody asks before it does.
    """

    def __init__(self) -> None:
        self.turn = threading.RLock()  # whoever changes the learner has it
        self.lock = threading.Lock()  # for moments
        self.stepping = False
        self.changes = 0  # steps, and what `Learner.changed` tells
        self.last: Snapshot | None = None
        self.pool: list[Snapshot] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return Snapshots, ()

    @contextmanager
    def step(self, learner: "Learner") -> Iterator[Snapshot]:
        """Change the learner, completely or, if that fails, not at all; one thread after the other."""
        with self.turn:
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
                with self.lock:
                    before.users -= 1
                    self.stepping = False
                    self.changes += 1

    @contextmanager
    def asked(self, learner: "Learner") -> Iterator[Snapshot]:
        """The last complete step, which stays as it is as long as it is used."""
        with self.lock:
            if not self.stepping:
                learner.guard.check()
            snapshot = self._current(learner)
            snapshot.users += 1
        try:
            yield snapshot
        finally:
            with self.lock:
                snapshot.users -= 1

    def drop(self) -> None:
        """Let go of all copies, and of what they hold of the memory."""
        with self.lock:
            self.last, self.pool = None, []

    def _current(self, learner: "Learner") -> Snapshot:
        if self.stepping and self.last is not None:
            return self.last
        state = (self.changes, *((id(tensor), tensor._version) for tensor in tensors(learner.network)))
        if self.last is None or self.last.state != state:
            self.last = next((snapshot for snapshot in self.pool if not snapshot.users), None)
            if self.last is None:
                self.last = Snapshot()
                self.pool.append(self.last)
            self.last.take(learner, state)
        return self.last


def _fitted(live: Tensor | None, copied: Tensor) -> Tensor:
    """The live tensor with the values of the copy, or a new one if it has another shape by now."""
    if live is None or live.shape != copied.shape:
        return copied.clone()
    return live.copy_(copied)
