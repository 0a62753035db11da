"""Random draws from generators that belong to one purpose each, never from torch's global one."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Generator, Tensor


def generator(seed: int, purpose: str) -> Generator:
    """Return the generator of one purpose, e.g. "retrieval".

    Its stream depends on seed and purpose alone, so that two methods with the same seed stay paired in all else
    when one of them draws more.
    """
    return Generator().manual_seed(_seed(seed, purpose))


@contextmanager
def seeded(seed: int, purpose: str) -> Iterator[None]:
    """Let torch's own initialisers draw from a seed of ours; the global generator is as before afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_seed(seed, purpose))
        yield


@contextmanager
def lent(generator: Generator) -> Iterator[None]:
    """Let what can only draw from torch's global generator, such as Dropout on a CPU, draw from one of ours."""
    outside = torch.get_rng_state()
    torch.set_rng_state(generator.get_state())
    try:
        yield
    finally:
        generator.set_state(torch.get_rng_state())
        torch.set_rng_state(outside)


def distinct(count: int, total: int, generator: Generator) -> Tensor:
    """Draw `count` different numbers below `total`, in random order.

    The first `count` swaps of a Fisher-Yates shuffle of range(total), of which only the moved entries are kept: the
    cost grows with `count`, not with `total`.
    """
    count = min(count, total)
    moved: dict[int, int] = {}
    drawn = []
    for i, u in enumerate(torch.rand(count, generator=generator, dtype=torch.float64).tolist()):
        j = i + int(u * (total - i))
        drawn.append(moved.get(j, j))
        moved[j] = moved.get(i, i)
    return torch.tensor(drawn, dtype=torch.int64)


def _seed(seed: int, purpose: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{purpose}".encode()).digest()[:8], "big") >> 1
