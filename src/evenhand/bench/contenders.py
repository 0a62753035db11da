"""Who is timed: plain PyTorch loops that do the same work, and learners with full memories."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evenhand import draws, registry
from evenhand.backbones import ReducedResNet18
from evenhand.batch import Batch
from evenhand.bench.timing import Stepper
from evenhand.learner import Learner

CIFAR, MINI = (3, 32, 32), (3, 84, 84)
BATCH, CLASSES, MEMORY = 10, 100, 1000


def eager(shape: tuple[int, ...] = CIFAR, layout: torch.memory_format = torch.contiguous_format) -> Stepper:
    """The loop that one would write by hand: one joint pass, a reservoir."""
    with draws.seeded(0, "init"):
        trunk = ReducedResNet18(shape)
        model = nn.Sequential(trunk, nn.Linear(trunk.dim, CLASSES))
    model.to(memory_format=layout)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    stream = samples(BATCH, CLASSES, shape)
    memory_x, memory_y = samples(MEMORY, CLASSES, shape)
    offered = 10 * MEMORY

    def step() -> None:
        nonlocal offered
        x, y = stream
        slots = torch.randperm(MEMORY)[:BATCH]
        inputs = (torch.cat([x, memory_x[slots]]).float() / 255).contiguous(memory_format=layout)
        logits = model(inputs)
        loss = F.cross_entropy(logits[:BATCH], y) + F.cross_entropy(logits[BATCH:], memory_y[slots])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for i in range(BATCH):
            offered += 1
            slot = int(torch.randint(offered, (1,)))
            if slot < MEMORY:
                memory_x[slot], memory_y[slot] = x[i], y[i]

    return step


def learner(
    name: str,
    *,
    shape: tuple[int, ...] = CIFAR,
    memory: int = MEMORY,
    classes: int = CLASSES,
    compile: bool = False,
    views: str = "none",
) -> Learner:
    """A learner that knows all classes and whose memory is full."""
    with draws.seeded(0, "init"):
        made = Learner(
            ReducedResNet18(shape),
            name,
            memory=memory,
            replay=BATCH,
            compile=compile,
            augment="none" if views == "none" else "scr",
            views=views,
            device="cpu",
        )
    plain = set(made.method.changes(registry.resolve("er"))) <= {"scoring"}
    for x, y in _portions(classes if plain else max(memory, classes), classes, shape):
        made.observe(x, y)
    made.boundary()
    if plain:  # the others store more than samples, so they have observed a whole memory
        made.memory.write(torch.arange(memory), Batch(*samples(memory, classes, shape)))
    made.memory.offered = 10 * memory
    return made


def stepper(made: Learner) -> Stepper:
    """One step of a learner, always with the same batch."""
    assert made.kind is not None
    x, y = samples(BATCH, len(made.labels), tuple(made.kind[1]))
    return lambda: made.observe(x, y)


def samples(count: int, classes: int, shape: tuple[int, ...] = CIFAR) -> tuple[Tensor, Tensor]:
    """Random images and labels."""
    drawn = draws.generator(count, "bench")
    x = torch.randint(256, (count, *shape), generator=drawn, dtype=torch.uint8)
    return x, torch.randint(classes, (count,), generator=drawn)


def _portions(count: int, classes: int, shape: tuple[int, ...]) -> list[tuple[Tensor, Tensor]]:
    """Samples of all classes, a hundred at a time, so that filling a memory takes no memory of its own."""
    y = torch.arange(max(count, classes)) % classes
    drawn = samples(100, classes, shape)[0]
    return [(drawn[: len(part)], part) for part in y.split(100)]
