"""The learner: everything that changes while a method learns, behind `observe` and `predict`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import torch
from torch import Generator, Tensor, nn
from torch.nn.utils import get_total_norm

from evenhand import admission, errors, files, registry, state
from evenhand.admission import Label
from evenhand.augment import AUGMENTATIONS
from evenhand.batch import Batch, unit
from evenhand.compiled import Compiled
from evenhand.copies import Copies, folded
from evenhand.draws import generator, lent, seeded
from evenhand.gradients import trainable
from evenhand.memory import Memory
from evenhand.method import Method
from evenhand.network import Network
from evenhand.scoring import Phase
from evenhand.soundness import Soundness

PURPOSES = ("head", "extra", "network", "retrieval", "storage", "augment/stream", "augment/replay")
EVALUATION_BATCH = 128


class Learner:
    """Learns from a stream, sees every sample once, keeps a small memory, and can be asked at any time.

    Parameters
    ----------
    network
        A `Network`, one of our backbones, or any module that ends in a Linear (see `Network.of`); it is put into
        training mode, and parameters that need no gradient stay as they are.
    method
        A name such as "uer" or "uer(alpha=0.3)", or a `Method`.
    memory
        How many samples may be kept.
    replay
        How many of them come back with each batch.
    lr
        The learning rate of plain SGD.
    iterations
        How many times each batch is learned before it is stored.
    augment, views
        "none", "crop" or "scr", and whether the augmented view is shown alone ("replace") or beside the raw one
        ("concat").
    passes
        Whether stream and replay go through the network together ("joint") or one after the other ("separate"), which
        matters to batch normalisation.
    classes
        With how many rows the head begins: the softmax then runs over all of them, seen or not. By default it runs over
        the classes seen so far; either way the head grows with further ones.
    compile
        Let torch.compile make the trunk faster; it takes about a minute, once, and is for batches of one size.
    seed
        Of all random draws, those of a Dropout in the network included; torch's global generator stays where it is.
    device
        "auto" takes a GPU where there is one.

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
        replay: int = 10,
        lr: float = 0.1,
        iterations: int = 1,
        augment: str = "none",
        views: str | None = None,
        passes: Literal["joint", "separate"] = "joint",
        classes: int = 0,
        compile: bool = False,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.method = registry.resolve(method) if isinstance(method, str) else method
        if not isinstance(self.method, Method):
            raise errors.wrong("The 'method' of a learner", "be a name or a Method", method)
        self.device = _device(device)
        self.memory = Memory(memory, self.device)
        self.replay = errors.whole("The 'replay' batch", replay, 1)
        self.lr = errors.number("The learning rate 'lr'", lr, 0)
        self.iterations = errors.whole("The number of 'iterations'", iterations, 1)
        self.augment = errors.choice("The augmentation 'augment'", augment, ("none", *AUGMENTATIONS))
        self.views = errors.choice("The field 'views'", views or default_views(augment), ("none", "replace", "concat"))
        if (self.views == "none") != (self.augment == "none"):
            raise errors.InputError(f"augment='{self.augment}' and views='{self.views}' contradict each other.")
        self.passes = errors.choice("The field 'passes'", passes, ("joint", "separate"))
        self._heed_needs()
        self.seed = errors.whole("The 'seed'", seed)
        self.generators: dict[str, Generator] = {purpose: generator(seed, purpose) for purpose in PURPOSES}
        self.network = Network.of(network).to(self.device).train()
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if self.method.scoring.couple != "head" and self.network.neck is None:
            raise errors.InputError(
                f"The scoring couples '{self.method.scoring.couple}', but the network has no neck. "
                "Give it one with Network.of(module, neck=True), or --neck on the command line."
            )
        with seeded(seed, "modules"):
            for part in self.method.parts("modules"):
                self.network.extra.update(part.modules(self.network))
        self.classes = errors.whole("The number of 'classes' to begin with", classes, 0)
        self._grow(classes)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=lr, foreach=True)
        self.compiled = Compiled(self.network.trunk) if errors.truth("The field 'compile'", compile) else None
        self.labels: list[Label] = []
        self.stages: list[int] = []  # how many classes there were at each boundary, for methods that listen
        self.teacher: Network | None = None  # the network at the last boundary, for methods that keep it
        self.steps = 0
        self.soundness = Soundness(self.device)
        self._rows: dict[str, int] = {}
        self.kind: tuple[str, list[int]] | None = None  # type and shape of a sample
        self._copies = Copies()
        self._answers: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"Learner({len(self.labels)} classes, {self.steps} steps, {self.memory})"

    # What a user does -------------------------------------------------------------------------------------------------

    def observe(self, x: Any, y: Sequence[Label] | Tensor, *, beside: tuple[Any, Any] | None = None) -> None:
        """Learn one batch of the stream.

        Parameters
        ----------
        x
            Images (n, c, h, w), uint8 or floats in [0, 1], or vectors (n, d).
        y
            Their n labels; a new one grows the head.
        beside
            A second batch (x, y) to learn in the place of a replay, as the order iid++ brings it; then nothing is
            retrieved and nothing stored.
        """
        if beside is not None and len(beside) != 2:
            raise errors.wrong("The batch 'beside'", "be a pair (x, y)", beside)
        given = [self._checked(*pair) for pair in ((x, y), *([beside] if beside else []))]
        if len({(samples.dtype, samples.shape[1:]) for samples, _ in given}) > 1:
            raise errors.InputError("The batch 'beside' must hold samples of the same type and shape as the other.")
        batch, *second = [self._registered(samples, labels) for samples, labels in given]
        method = self.method
        if second:
            replay = self._viewed(second[0], "augment/replay")
            method = method.but(retrieval=lambda *_: replay, storage=lambda *_: None)
        statistics = [buffer.clone() for buffer in self.network.buffers()]
        try:
            with lent(self.generators["network"]):
                method.step(self, self._viewed(batch, "augment/stream"))
        except BaseException:
            for buffer, before in zip(self.network.buffers(), statistics, strict=True):
                buffer.copy_(before)
            raise
        finally:
            self._answers.clear()
        self.steps += 1

    def predict(self, x: Any) -> list[Label]:
        """The most likely label of each sample; changes nothing."""
        return [self.labels[row] for row in self.scores(x).argmax(1).tolist()]

    def scores(self, x: Any) -> Tensor:
        """The score of each label for each sample, (n, labels) in the order of `labels`; changes nothing."""
        if not self.labels:
            raise errors.InputError("The learner has seen no class yet, so it cannot predict. Call observe first.")
        self.soundness.ask()
        samples = self._fitting(admission.samples(x)).to(self.device)
        with torch.no_grad():
            scored = [self.method.prediction(self, unit(part)) for part in samples.split(EVALUATION_BATCH)]
        return torch.cat(scored)[:, : self.seen] if self.classes else torch.cat(scored)

    def boundary(self) -> None:
        """Say that a stage has ended; only methods with a part that needs it listen."""
        self.soundness.ask()
        if listening := self.method.parts("boundary"):
            self.stages.append(len(self.labels))
            for part in listening:
                part.boundary(self)
            self._answers.clear()

    def save(self, path: str | Path) -> None:
        """Write everything to one safetensors file, whole or not at all."""
        files.write_state(Path(path), self.state_dict(), self.facts())

    @classmethod
    def load(
        cls, path: str | Path, network: nn.Module | None = None, *, compile: bool = False, device: str = "auto"
    ) -> Self:
        """Read a learner back, to the bit.

        A network of our own backbones is rebuilt; any other must be given, built as it was when the learner was made.
        A learner that was compiled goes on to the same bits only if it is compiled again.
        """
        tensors, facts = files.read_state(Path(path))
        facts = facts.get("learner", facts)  # the state of a run holds its learner and more
        registry.recipes()  # the parts of a method are known once the methods are
        try:
            wrapped = state.network(path, facts, network)
            method = Method.from_json(facts["method"])
            learner = cls(wrapped, method, **facts["settings"], compile=compile, device=device)
            learner.load_state_dict(tensors, facts)
        except (KeyError, TypeError, AttributeError) as error:
            raise errors.RunError(f"{path} is damaged: {error} is missing or wrong.") from None
        return learner

    # What the parts of a method use -----------------------------------------------------------------------------------

    def features(self, *batches: Batch | None) -> list[Tensor]:
        """The features of each batch's inputs, in one joint pass or one pass each; (0, dim) where there is no batch."""
        if self.passes == "separate":
            nothing = torch.empty(0, self.network.head.dim, device=self.device)
            return [self.network.features(batch.inputs) if batch else nothing for batch in batches]
        inputs = [batch.inputs if batch else None for batch in batches]
        joint = torch.cat([x for x in inputs if x is not None])
        # A compiled trunk is for one shape, that of a batch with its full replay.
        steady = None not in inputs and len(self.memory) >= min(self.memory.size, 10 * self.replay)
        trunk = self.compiled if self.compiled and steady and self.compiled.trunk is self.network.trunk else None
        h = (trunk or self.network.features)(joint)
        return list(h.split([0 if x is None else len(x) for x in inputs]))

    def expect(self, phase: Phase, h: Tensor, criterion: Callable[[Tensor], Tensor]) -> Tensor:
        """The criterion of the logits of h, mixed as the scoring asks for in this phase.

        The sum over forms of weight * criterion(logits): the one place where dot and cos meet.
        """
        scoring = self.method.scoring
        mix = scoring.learn if phase == "learn" else scoring.replay
        terms = [weight * criterion(self.network.logits(h, form, scoring.couple)) for form, weight in mix]
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]

    def recall(self, slots: Tensor) -> Batch | None:
        """Read samples from the memory and draw their views; None if there are none."""
        return self._viewed(self.memory.read(slots), "augment/replay") if len(slots) else None

    def descend(self, loss: Tensor, module: nn.Module | None = None) -> None:
        """Take one step of the optimizer down the loss, with all parameters or those of one module alone."""
        moving = trainable(module or self.network)
        self.follow(loss, dict(zip(moving, torch.autograd.grad(loss, moving, allow_unused=True), strict=True)))

    def follow(self, loss: Tensor, gradients: Mapping[nn.Parameter, Tensor | None]) -> None:
        """Take one step of the optimizer along the gradients of some parameters, if they and the loss are finite."""
        norm = get_total_norm([gradient for gradient in gradients.values() if gradient is not None])
        self.soundness.heed(self.steps, loss.detach(), norm)
        for parameter in self.network.parameters():
            parameter.grad = gradients.get(parameter)
        self.optimizer.step()
        self._answers.clear()

    @property
    def seen(self) -> int:
        """How many classes have arrived; theirs are the first rows of the head, and mostly all."""
        return self.network.classes - max(0, self.classes - len(self.labels))

    @property
    def before(self) -> int:
        """How many classes there were when the current stage began; its own are the rows from there on."""
        return self.stages[-1] if self.stages else 0

    def frozen(self) -> Network:
        """A copy of the network for testing, taken anew after each change; the live one never leaves training mode."""
        return self.answer("frozen", lambda: self._copies.take("frozen", self.network).eval())

    def snapshot(self) -> Network:
        """A copy of the network for predictions, with batch normalisation folded into the convolutions."""
        return self.answer("snapshot", lambda: folded(self.network))

    @contextmanager
    def trial(self) -> Iterator[Network]:
        """Work on a copy of the network: its weights and running statistics are thrown away afterwards."""
        live, self.network = self.network, self._copies.take("trial", self.network)
        try:
            yield self.network
        finally:
            self.network = live

    def answer(self, question: str, work: Callable[[], Any]) -> Any:
        """The result of some work on weights and memory, kept until either changes."""
        if question not in self._answers:
            self._answers[question] = work()
        return self._answers[question]

    # State ------------------------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """What is no tensor, as JSON: method, settings, labels, steps."""
        return state.facts(self)

    def state_dict(self) -> dict[str, Tensor]:
        """Every tensor that changes, by name."""
        self.soundness.ask()
        return state.tensors(self)

    def load_state_dict(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Take over what `state_dict` and `facts` gave."""
        self._register(state.labels(facts))
        state.restore(self, tensors, facts)
        self._answers.clear()

    # Admission --------------------------------------------------------------------------------------------------------

    def _checked(self, x: Any, y: Any) -> tuple[Tensor, list[Label]]:
        """Samples and labels that may be learned; nothing has changed yet."""
        if self.network.classes != max(len(self.labels), self.classes):
            raise errors.wrong("The network of a new learner", "have no classes yet", self.network.classes)
        samples = self._fitting(admission.samples(x))
        if self.kind is not None and _type(samples) != self.kind[0]:
            raise errors.wrong("Every sample", f"be of type {self.kind[0]}, as the first was", _type(samples))
        if self.augment != "none" and samples.ndim != 4:
            raise errors.wrong("Samples to augment", "be images (n, c, h, w)", tuple(samples.shape))
        if samples.ndim == 4 and (self.augment != "none" or self.method.parts("bounded")):
            admission.bounded(samples)
        return samples, admission.labels(y, len(samples))

    def _fitting(self, samples: Tensor) -> Tensor:
        """The samples, if they are of the kind seen before, or fit the network."""
        if self.kind is None:
            self.network.admit(unit(samples[:1]).to(self.device))
        elif list(samples.shape[1:]) != self.kind[1]:
            raise errors.wrong("Every sample", f"have the shape {tuple(self.kind[1])}", tuple(samples.shape[1:]))
        return samples

    def _registered(self, samples: Tensor, labels: list[Label]) -> Batch:
        """The batch of checked samples, whose new classes now have a row."""
        self.kind = (_type(samples), list(samples.shape[1:]))
        self._register(labels)
        rows = torch.tensor([self._rows[admission.key(label)] for label in labels], device=self.device)
        return Batch(samples.to(self.device), rows)

    def _register(self, labels: Sequence[Label]) -> None:
        """Give every new label a row of the head."""
        for label in labels:
            if admission.key(label) not in self._rows:
                self._rows[admission.key(label)] = len(self.labels)
                self.labels.append(label)
        if len(self.labels) > self.network.classes:
            self._answers.clear()
            self._grow(len(self.labels) - self.network.classes)
            self.optimizer.param_groups[0]["params"] = list(self.network.parameters())

    def _grow(self, count: int) -> None:
        self.network.grow(count, self.generators["head"], self.generators["extra"])

    def _heed_needs(self) -> None:
        """Give the method the views and passes that its parts cannot do without."""
        for part in self.method.parts("views"):
            self.views, self.augment = part.views, "scr" if self.augment == "none" else self.augment
        for part in self.method.parts("passes"):
            self.passes = part.passes

    def _viewed(self, batch: Batch, purpose: str) -> Batch:
        """The same batch with its views drawn."""
        if self.views == "none":
            return batch
        raw = unit(batch.x)
        seen = AUGMENTATIONS[self.augment](raw, self.generators[purpose])
        return replace(batch, views=seen if self.views == "replace" else torch.cat([raw, seen]))


def default_views(augment: str) -> str:
    """An augmentation that is asked for replaces the raw view, unless something else is said."""
    return "none" if augment == "none" else "replace"


def _type(samples: Tensor) -> str:
    return str(samples.dtype).removeprefix("torch.")


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError, TypeError):
        raise errors.wrong("The 'device' of a learner", "be auto, cpu, or a GPU that torch sees", name) from None
