"""Random draws: one generator per purpose, never torch's global one."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Generator, Tensor


def generator(seed: int, purpose: str) -> Generator:
    """Return the generator of one purpose, e.g. "retrieval".

    Its stream depends only on seed and purpose, so two methods with the same seed stay paired in everything else even
    if one of them draws more.
    """
    return Generator().manual_seed(_seed(seed, purpose))


LOCK = threading.RLock()
REPLACED: list[Tensor] = []  # the states of torch's generator that are to be restored; the first is the user's


@contextmanager
def as_global(generator: Generator) -> Iterator[None]:
    """Put a generator in place of torch's global one, the only one that e.g. Dropout on a CPU can draw from.

    Several threads may do so at the same time: their draws mix, but the last one restores the user's state.
    """
    with LOCK:
        outside = torch.get_rng_state()
        REPLACED.append(outside)
        torch.set_rng_state(generator.get_state())
    try:
        yield
    finally:
        with LOCK:
            generator.set_state(torch.get_rng_state())
            last = REPLACED.pop()
            torch.set_rng_state(outside if REPLACED else last)


def seeded(seed: int, purpose: str) -> AbstractContextManager[None]:
    """Put the generator of one purpose in place of torch's global one, e.g. for torch's initialisers."""
    return as_global(generator(seed, purpose))


def distinct(count: int, total: int, generator: Generator) -> Tensor:
    """Draw `count` different numbers below `total`, in random order.

    These are the first `count` swaps of a Fisher-Yates shuffle of range(total). Only the moved entries are stored, so
    the cost grows with `count`, not with `total`.
    """
    count = min(count, total)
    moved: dict[int, int] = {}
    numbers = []
    for i, u in enumerate(torch.rand(count, generator=generator, dtype=torch.float64).tolist()):
        j = i + int(u * (total - i))
        numbers.append(moved.get(j, j))
        moved[j] = moved.get(i, i)
    return torch.tensor(numbers, dtype=torch.int64)


def _seed(seed: int, purpose: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{purpose}".encode()).digest()[:8], "big") >> 1
