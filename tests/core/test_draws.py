import itertools
import math
import threading
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenhand.core.draws import distinct, generator, seeded
from reference.memory import shuffled


def chi_square(counts, cells):
    """Pearson's statistic against equal cells, in units of its standard deviation above its mean."""
    expected = sum(counts.values()) / cells
    assert len(counts) <= cells
    statistic = sum((count - expected) ** 2 / expected for count in counts.values())
    statistic += (cells - len(counts)) * expected
    return (statistic - (cells - 1)) / math.sqrt(2 * (cells - 1))


@given(st.integers(0, 30), st.integers(0, 60), st.integers(0, 1000))
def test_numbers_are_different_and_in_range(count, total, seed):
    drawn = distinct(count, total, torch.Generator().manual_seed(seed)).tolist()
    assert len(drawn) == len(set(drawn)) == min(count, total)
    assert all(0 <= number < total for number in drawn)


@given(st.integers(0, 30), st.integers(0, 60), st.integers(0, 1000))
def test_they_are_the_start_of_a_shuffle(count, total, seed):
    draws = torch.rand(min(count, total), generator=torch.Generator().manual_seed(seed), dtype=torch.float64).tolist()
    assert distinct(count, total, torch.Generator().manual_seed(seed)).tolist() == shuffled(total, draws)


@pytest.mark.parametrize(("count", "total"), [(1, 6), (2, 5), (3, 4), (4, 4)])
def test_every_ordered_choice_is_equally_likely(count, total):
    drawn = generator(0, "test")
    cells = math.perm(total, count)
    found = Counter(tuple(distinct(count, total, drawn).tolist()) for _ in range(100 * cells))
    assert set(found) == set(itertools.permutations(range(total), count))
    assert abs(chi_square(found, cells)) < 4


def test_unequal_choices_would_be_noticed():
    drawn = generator(0, "test")
    skewed = Counter(min(distinct(2, 5, drawn).tolist()) for _ in range(500))
    assert chi_square(skewed, 5) > 4


@pytest.mark.parametrize("total", [10, 1000, 10**12])
def test_the_cost_grows_with_the_count_alone(total, monkeypatch):
    asked = []
    rand = torch.rand

    def counting(*size, **options):
        asked.append(size)
        return rand(*size, **options)

    monkeypatch.setattr(torch, "rand", counting)
    drawn = distinct(10, total, generator(0, "test"))
    assert asked == [(10,)]
    assert len(drawn) == 10


def test_a_stream_of_draws_belongs_to_seed_and_purpose():
    def start(seed, purpose):
        return tuple(torch.rand(4, generator=generator(seed, purpose)).tolist())

    assert start(0, "retrieval") == start(0, "retrieval")
    streams = {start(seed, purpose) for seed in (0, 1, 10) for purpose in ("retrieval", "storage", "0")}
    assert len(streams) == 9


def test_threads_that_replace_the_global_generator_leave_it_as_it_was():
    before, both, last = torch.get_rng_state(), threading.Barrier(2), threading.Event()

    def replace(ends_first):
        with seeded(int(ends_first), "test"):
            both.wait(30)
            torch.rand(3)
            assert ends_first or last.wait(30)
        if ends_first:
            last.set()

    threads = [threading.Thread(target=replace, args=(first,)) for first in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(before, torch.get_rng_state())


def test_seeded_initialisers_leave_the_global_generator():
    before = torch.get_rng_state()
    with seeded(3, "init"):
        first = torch.nn.Linear(4, 4).weight
    with seeded(3, "init"):
        second = torch.nn.Linear(4, 4).weight
    with seeded(4, "init"):
        third = torch.nn.Linear(4, 4).weight
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert torch.equal(before, torch.get_rng_state())
