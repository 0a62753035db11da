import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenhand import Batch, Learner, Memory
from evenhand.backbones import MLP
from evenhand.core.draws import generator, seeded
from evenhand.errors import InputError
from evenhand.methods import gss as ours
from evenhand.methods.gss import DiverseGradients
from reference import gss, mir

DOT, COS = [("dot", 1.0)], [("cos", 1.0)]
MIXED = [("dot", 0.3), ("cos", 0.7)]
METHODS = {
    "gss(batches=3, size=4)": (DOT, DOT),
    "gss(batches=3, size=4)+uer(alpha=0.3)": (COS, MIXED),
}


def trained(method, hidden=5, seed=0, steps=4, memory=20):
    drawn = torch.Generator().manual_seed(seed)
    with seeded(seed, "init"):
        learner = Learner(MLP((4,), hidden), method, memory=memory, replay=4, seed=seed, device="cpu")
    samples, labels = torch.rand(steps + 1, 6, 4, generator=drawn), torch.randint(4, (steps + 1, 6), generator=drawn)
    for x, y in zip(samples[:-1], labels[:-1], strict=True):
        learner.observe(x, y)
    return learner, Batch(samples[-1], labels[-1] % len(learner.labels))


def pairs(batch):
    return list(zip(batch.x.double().tolist(), batch.y.tolist(), strict=True))


def compared(learner, batch, monkeypatch):
    """The toolkit's scores and likeness, and the slots of the memory that it compared with."""
    drawn, sample = [], learner.memory.sample

    def record(*given):
        drawn.append(sample(*given))
        return drawn[-1]

    monkeypatch.setattr(learner.memory, "sample", record)
    scores, likeness = learner.method.storage.compare(learner, batch)
    [slots] = drawn
    return (scores.tolist(), likeness), slots


def agree(found, expected):
    return np.allclose(found[0], expected[0], rtol=0, atol=2e-5) and np.isclose(found[1], expected[1], atol=2e-5)


@pytest.mark.parametrize("hidden", [0, 5])
@pytest.mark.parametrize("method", METHODS)
def test_scores_are_the_largest_cosines(method, hidden, monkeypatch):
    learn, replay = METHODS[method]
    for seed in range(3):
        learner, batch = trained(method, hidden, seed)
        theta = mir.layers(learner.network.state_dict())
        found, slots = compared(learner, batch, monkeypatch)
        assert len(set(slots.tolist())) == 12
        parts = [pairs(learner.memory.read(part)) for part in slots.split(4)]
        assert np.ptp(found[0]) > 0.01  # far above the tolerance
        assert agree(found, gss.scores(theta, pairs(batch), parts, learn, replay))


MUTANTS = {
    "a product without norms": lambda *given: gss.scores(*given, COS, MIXED, likeness=gss.inner),
    "the smallest cosine": lambda theta, batch, parts: (
        [min(gss.scores(theta, [one], [part], COS, MIXED)[0][0] for part in parts) for one in batch],
        min(gss.scores(theta, batch, [part], COS, MIXED)[1] for part in parts),
    ),
    "one batch of the whole memory": lambda theta, batch, parts: gss.scores(
        theta, batch, [[sample for part in parts for sample in part]], COS, MIXED
    ),
    "phases swapped": lambda *given: gss.scores(*given, MIXED, COS),
    "dot product for the batch": lambda *given: gss.scores(*given, DOT, MIXED),
    "cosine for the memory": lambda *given: gss.scores(*given, COS, COS),
    "the largest of the samples for the batch": lambda *given: (
        gss.scores(*given, COS, MIXED)[0],
        max(gss.scores(*given, COS, MIXED)[0]),
    ),
}


@pytest.mark.parametrize("mutation", MUTANTS)
def test_a_wrong_score_is_noticed(mutation, monkeypatch):
    learner, batch = trained("gss(batches=3, size=4)+uer(alpha=0.3)", seed=1)
    theta = mir.layers(learner.network.state_dict())
    found, slots = compared(learner, batch, monkeypatch)
    parts = [pairs(learner.memory.read(part)) for part in slots.split(4)]
    assert agree(found, gss.scores(theta, pairs(batch), parts, COS, MIXED))
    assert not agree(found, MUTANTS[mutation](theta, pairs(batch), parts))


@pytest.mark.parametrize(("held", "expected"), [(6, [6]), (12, [10]), (30, [10, 10, 10]), (36, [10, 10, 10])])
def test_how_many_memories_are_compared_with(held, expected, monkeypatch):
    """Whole batches of ten, or one smaller one while there are fewer memories; no more of them than asked for."""
    learner, batch = trained("gss(batches=3)", steps=held // 6, memory=40)
    lengths, gradient = [], ours.batch_gradient

    def record(learner, memories, mix):
        lengths.append(len(memories))
        return gradient(learner, memories, mix)

    monkeypatch.setattr(ours, "batch_gradient", record)
    learner.method.storage.compare(learner, batch)
    assert lengths == expected


def test_the_first_batch_scores_a_tenth():
    learner, _ = trained("gss", steps=1)
    assert torch.equal(learner.memory.columns["score"][:6], torch.full((6,), 0.1))


def test_scores_are_stored_with_their_samples(monkeypatch):
    learner, batch = trained("gss", steps=2)
    found = []
    compare = DiverseGradients.compare
    monkeypatch.setattr(DiverseGradients, "compare", lambda *given: found.append(compare(*given)) or found[-1])
    learner.method.storage(learner, batch)
    assert len(learner.memory) == 18
    assert torch.equal(learner.memory.columns["score"][12:18], found[0][0])
    assert torch.equal(learner.memory.columns["x"][12:18], batch.x)


# The replacement, with scores, candidates and draws given -------------------------------------------------------------


class Store:
    """A memory of named samples with scores, written by the toolkit's storage."""

    def __init__(self, monkeypatch, size, held):
        self.patch = monkeypatch
        self.learner = SimpleNamespace(memory=Memory(size), generators={"storage": generator(0, "storage")})
        if held:
            self.learner.memory.write(torch.arange(len(held)), self.batch(held))

    def batch(self, samples):
        names, scores = (torch.tensor(column, dtype=torch.float32) for column in zip(*samples, strict=True))
        return Batch(names.unsqueeze(1), names.long(), extra={"score": scores})

    def offer(self, samples, likeness, places=None, draws=None):
        """Store a batch of these scores; candidates and random numbers may be given as well."""
        batch = self.batch(samples)
        self.patch.setattr(DiverseGradients, "compare", lambda *_: (batch.extra["score"], likeness))
        if places is not None:
            self.patch.setattr(ours, "candidates", lambda *_: torch.tensor(places))
            self.patch.setattr(torch, "rand", lambda n, **_: torch.tensor(draws[:n]))
        DiverseGradients()(self.learner, Batch(batch.x, batch.y))
        return self.held()

    def held(self):
        memory = self.learner.memory
        rows = memory.read(torch.arange(len(memory)))
        return list(zip(rows.y.tolist(), [round(score, 4) for score in rows.extra["score"].tolist()], strict=True))


def test_samples_are_appended_while_there_is_room(monkeypatch):
    store = Store(monkeypatch, 5, [(1, 0.1)])
    assert store.offer([(2, 0.9), (3, -0.5)], likeness=0.8) == [(1, 0.1), (2, 0.9), (3, -0.5)]
    assert store.learner.memory.offered == 2


@pytest.mark.parametrize(("likeness", "acts"), [(0.5, False), (0.0, False), (-0.001, True)])
def test_a_full_memory_changes_only_for_a_batch_unlike_it(likeness, acts, monkeypatch):
    held = [(1, 0.9), (2, 0.9)]
    after = Store(monkeypatch, 2, held).offer([(3, -0.9), (4, -0.9)], likeness, places=[1, 0], draws=[0.0, 0.0])
    assert after == ([(4, -0.9), (3, -0.9)] if acts else held)


def test_a_replacement_by_hand(monkeypatch):
    """Candidate 0.6 against -0.2: .8 / (.8 + .4) = 2/3; candidate -0.5 against 0.5: .25 / (.25 + .75) = 1/4."""
    held, new = [(1, 0.0), (2, 0.6), (3, -0.5)], [(7, -0.2), (8, 0.5)]
    for draws, after in [
        ((0.66, 0.26), [(1, 0.0), (7, -0.2), (3, -0.5)]),
        ((0.67, 0.24), [(1, 0.0), (2, 0.6), (8, 0.5)]),
        ((0.66, 0.24), [(1, 0.0), (7, -0.2), (8, 0.5)]),
        ((0.67, 0.26), held),
    ]:
        assert Store(monkeypatch, 3, held).offer(new, -0.1, places=[1, 2], draws=draws) == after


def test_a_batch_that_straddles_the_end_fills_the_room_first(monkeypatch):
    store = Store(monkeypatch, 3, [(1, 0.9), (2, 0.9)])
    after = store.offer([(5, 0.2), (6, -0.9), (7, -0.9)], -0.5, places=[0, 1], draws=[0.0, 0.999])
    assert after == [(6, -0.9), (2, 0.9), (5, 0.2)]
    assert Store(monkeypatch, 3, [(1, 0.9), (2, 0.9)]).offer([(5, 0.2), (6, -0.9)], 0.5)[2] == (5, 0.2)


@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(0, 99), st.integers(-9, 9)), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(100, 199), st.integers(-9, 9)), min_size=1, max_size=6),
    st.sampled_from([-0.4, 0.0, 0.4]),
    st.randoms(use_true_random=False),
)
def test_the_decision_is_that_of_the_reference(size, held, new, likeness, random):
    held, new = [(name, s / 10) for name, s in held][:size], [(name, s / 10) for name, s in new]
    places = random.sample(range(size), random.randint(1, size))[: max(0, len(held) + len(new) - size)]
    draws = [random.randrange(100) / 100 + 0.0031 for _ in range(6)]
    with pytest.MonkeyPatch.context() as patch:
        after = Store(patch, size, held).offer(new, likeness, places, draws)
    assert after == gss.keep(size, held, new, likeness, places, draws)


def test_a_wrong_probability_is_noticed(monkeypatch):
    held, new, draws = [(1, 0.6), (2, -0.4)], [(7, -0.2), (8, 0.5)], [0.5, 0.5]
    after = Store(monkeypatch, 2, held).offer(new, -0.1, [0, 1], draws)
    assert after == gss.keep(2, held, new, -0.1, [0, 1], draws)
    right = gss.replaces
    for wrong in (
        lambda old, new, u: right(new, old, u),  # s'_x / (s'_c + s'_x)
        lambda old, new, u: u < (new + 1) / 2,
        lambda old, new, u: True,
    ):
        monkeypatch.setattr(gss, "replaces", wrong)
        assert after != gss.keep(2, held, new, -0.1, [0, 1], draws)


def test_candidates_are_drawn_by_their_weights():
    """Scores -1, 0, 0.5, 1: weights 0, 1, 1.5, 2 by 2.01; the first draw follows them, none comes twice."""
    stored, drawn, trials = [-1.0, 0.0, 0.5, 1.0], generator(0, "test"), 4000
    first = [0] * 4
    for _ in range(trials):
        places = ours.candidates(torch.tensor(stored), 2, drawn).tolist()
        assert len(set(places)) == 2
        first[places[0]] += 1
    weights = gss.weights(stored)
    assert weights == pytest.approx([0, 1 / 2.01, 1.5 / 2.01, 2 / 2.01])
    for count, weight in zip(first, weights, strict=True):
        p = weight / sum(weights)
        assert abs(count - trials * p) <= 4 * math.sqrt(trials * p * (1 - p))


def test_the_weights_have_a_hundredth_in_their_span(monkeypatch):
    """It cancels in the draw but for the case that all scores are equal, so look at the weights themselves."""
    seen, multinomial = [], torch.multinomial
    monkeypatch.setattr(torch, "multinomial", lambda w, *a, **k: seen.append(w.tolist()) or multinomial(w, *a, **k))
    for stored in ([0.2, 0.21, 0.25], [0.1, 0.1, 0.1], [-1.0, 1.0], [0.4]):
        ours.candidates(torch.tensor(stored, dtype=torch.float64), 1, generator(0, "test"))
        assert seen.pop() == pytest.approx(gss.weights(stored))


def test_equal_scores_are_drawn_uniformly():
    drawn, trials, first = generator(0, "test"), 3000, [0] * 3
    for _ in range(trials):
        first[ours.candidates(torch.full((3,), 0.1), 3, drawn)[0]] += 1
    assert all(abs(count - 1000) < 4 * math.sqrt(trials * 2 / 9) for count in first)


def test_the_probability_is_met():
    drawn, trials = generator(0, "test"), 6000
    taken = ours.replaces(torch.full((trials,), 0.6), torch.full((trials,), -0.2), drawn).sum().item()
    assert abs(taken - trials * 2 / 3) < 4 * math.sqrt(trials * 2 / 9)


def test_opposite_scores_divide_nothing_by_nothing():
    both = ours.replaces(torch.tensor([-1.0, -1.0, 1.0]), torch.tensor([-1.0, 1.0, -1.0]), generator(0, "test"))
    assert both.tolist() == [False, False, True]


@pytest.mark.parametrize("size", [0, 1, 2])
def test_tiny_memories(size, learner, images, monkeypatch):
    compare = DiverseGradients.compare
    monkeypatch.setattr(DiverseGradients, "compare", lambda *given: (compare(*given)[0], -1.0))
    made = learner("gss", "mlp", memory=size)
    for x, y in images(4):
        made.observe(x, y)
    assert len(made.memory) == size
    assert made.memory.offered == 40


def test_a_memory_of_equal_scores_is_replaced(monkeypatch):
    store = Store(monkeypatch, 4, [(i, 0.1) for i in range(4)])
    monkeypatch.setattr(torch, "rand", lambda n, **_: torch.zeros(n))
    after = store.offer([(i, -0.3) for i in range(10, 20)], likeness=-0.1)
    assert sorted(name for name, _ in after) == [10, 11, 12, 13]


@pytest.mark.parametrize("field", ["batches", "size"])
@pytest.mark.parametrize("value", [0, -3, 1.5, False, None])
def test_options_are_checked(field, value):
    with pytest.raises(InputError, match=f"'{field}' parameter of gss must be a whole number of at least 1"):
        DiverseGradients(**{field: value})
