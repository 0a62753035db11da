import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenhand import Batch, Memory
from evenhand.core.draws import generator
from evenhand.methods.er import Reservoir
from reference.memory import reservoir


def keep(size, batches, drawn):
    """Offer batches of whole numbers to a memory; the numbers that are in it, by slot."""
    learner = SimpleNamespace(memory=Memory(size), generators={"storage": drawn})
    for numbers in batches:
        x = torch.tensor(numbers, dtype=torch.float32).unsqueeze(1)
        Reservoir()(learner, Batch(x, torch.zeros(len(numbers), dtype=torch.int64)))
    columns = learner.memory.columns
    return learner.memory, columns["x"][: len(learner.memory), 0].int().tolist() if columns else []


def test_a_case_by_hand(monkeypatch):
    """Three slots; 4 draws floor(.5 * 4) = 2, 5 draws floor(.9 * 5) = 4, 6 draws floor(.1 * 6) = 0, 7 draws 2 again."""
    draws = iter([[0.9, 0.9], [0.0, 0.5, 0.9], [0.1, 0.3]])
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.tensor(next(draws), dtype=torch.float64))
    memory, kept = keep(3, [[1, 2], [3, 4, 5], [6, 7]], None)
    assert kept == [6, 2, 7]
    assert memory.offered == 7


@given(st.integers(0, 6), st.lists(st.integers(1, 5), max_size=8), st.integers(0, 100))
def test_it_is_algorithm_r_however_the_stream_is_cut(size, lengths, seed):
    numbers = iter(range(100))
    batches = [[next(numbers) for _ in range(length)] for length in lengths]
    drawn = torch.Generator().manual_seed(seed)
    draws = [u for part in batches for u in torch.rand(len(part), generator=drawn, dtype=torch.float64).tolist()]
    memory, kept = keep(size, batches, torch.Generator().manual_seed(seed))
    assert kept == reservoir(size, range(sum(lengths)), draws)
    assert memory.offered == sum(lengths)
    assert len(memory) == min(size, sum(lengths))


@pytest.mark.parametrize("size", [1, 4])
def test_every_sample_is_kept_with_the_same_probability(size):
    drawn, total, trials = generator(0, "test"), 12, 3000
    found = [0] * total
    for _ in range(trials):
        for number in keep(size, [range(5), range(5, 12)], drawn)[1]:
            found[number] += 1
    p = size / total
    bound = 4 * math.sqrt(trials * p * (1 - p))
    assert sum(found) == trials * size
    assert all(abs(count - trials * p) < bound for count in found), found


def test_the_memory_keeps_raw_samples_and_not_their_views(learner, images):
    made = learner("er", augment="scr", views="concat", memory=10)
    [(x, y)] = images(1)
    made.observe(x, y)
    assert made.memory.columns["x"].dtype == torch.uint8
    assert torch.equal(made.memory.columns["x"], x)
