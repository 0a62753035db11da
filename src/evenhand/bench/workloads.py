"""Workloads to time: a plain PyTorch loop, and steps of learners whose memories are full."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evenhand.backbones import ReducedResNet18
from evenhand.bench.timing import Workload
from evenhand.core import draws, registry
from evenhand.core.batch import Batch
from evenhand.core.learner import Learner

CIFAR, MINI = (3, 32, 32), (3, 84, 84)
BATCH, CLASSES, MEMORY = 10, 100, 1000


def plain_loop(
    shape: tuple[int, ...] = CIFAR, layout: torch.memory_format = torch.contiguous_format, copies: int = 1
) -> Workload:
    """A step of ER as one would write it by hand: one joint pass, a reservoir; several copies stand for views."""
    with draws.seeded(0, "init"):
        trunk = ReducedResNet18(shape)
        model = nn.Sequential(trunk, nn.Linear(trunk.dim, CLASSES))
    model.to(memory_format=layout)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = random_samples(BATCH, CLASSES, shape)
    memory_x, memory_y = random_samples(MEMORY, CLASSES, shape)
    offered = 10 * MEMORY

    def step() -> None:
        nonlocal offered
        slots = torch.randperm(MEMORY)[:BATCH]
        inputs = (torch.cat([x, memory_x[slots]]).float() / 255).contiguous(memory_format=layout)
        logits = model(inputs.repeat(copies, 1, 1, 1)).unflatten(0, (copies, 2 * BATCH))
        targets = torch.cat([y, memory_y[slots]]).repeat(copies, 1)
        new, old = slice(None, BATCH), slice(BATCH, None)
        loss = sum(F.cross_entropy(logits[:, part].flatten(0, 1), targets[:, part].flatten()) for part in (new, old))
        optimizer.zero_grad()
        torch.as_tensor(loss).backward()
        optimizer.step()
        for i in range(BATCH):
            offered += 1
            slot = int(torch.randint(offered, (1,)))
            if slot < MEMORY:
                memory_x[slot], memory_y[slot] = x[i], y[i]

    return step


def full_learner(
    method: str,
    *,
    shape: tuple[int, ...] = CIFAR,
    memory: int = MEMORY,
    classes: int = CLASSES,
    compile: bool = False,
    views: str = "none",
    precision: str = "fp32",
) -> Learner:
    """A learner that has seen all classes and whose memory is full."""
    with draws.seeded(0, "init"):
        learner = Learner(
            ReducedResNet18(shape),
            method,
            memory=memory,
            replay=BATCH,
            compile=compile,
            augment="none" if views == "none" else "scr",
            views=views,
            precision=precision,
            device="cpu",
        )
    only_samples = set(learner.method.changes(registry.resolve("er"))) <= {"scoring"}
    y = torch.arange(classes if only_samples else max(memory, classes)) % classes
    x = random_samples(100, classes, shape)[0]
    for part in y.split(100):  # the same images again and again, so that filling a large memory needs no room for them
        learner.observe(x[: len(part)], part)
    learner.boundary()
    if only_samples:  # other methods store more than samples, so they have observed a whole memory
        learner.memory.write(torch.arange(memory), Batch(*random_samples(memory, classes, shape)))
    learner.memory.offered = 10 * memory
    return learner


def step_of(learner: Learner) -> Workload:
    """One step of a learner, always with the same batch."""
    assert learner.kind is not None
    x, y = random_samples(BATCH, len(learner.labels), learner.kind.shape)
    return lambda: learner.observe(x, y)


def random_samples(count: int, classes: int, shape: tuple[int, ...] = CIFAR) -> tuple[Tensor, Tensor]:
    """Random images and labels; the same for the same count."""
    generator = draws.generator(count, "bench")
    x = torch.randint(256, (count, *shape), generator=generator, dtype=torch.uint8)
    return x, torch.randint(classes, (count,), generator=generator)
