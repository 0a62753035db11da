import copy
import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenhand import Batch, Learner, Memory
from evenhand.backbones import MLP
from evenhand.core.batch import unit
from evenhand.core.draws import generator, seeded
from evenhand.core.registry import resolve
from evenhand.errors import InputError
from evenhand.methods import aser as ours
from evenhand.methods.aser import AdversarialShapley, HighestShapley, Shapley
from reference import aser, mir

WRONG = {
    "without min(K, m) / m": partial(aser.shapley, damping=lambda k, m: 1.0),
    "min(K, m) alone": partial(aser.shapley, damping=lambda k, m: min(k, m)),
    "1 / m": partial(aser.shapley, damping=lambda k, m: 1 / m),
    "the last by K": lambda candidates, point, k: aser.shapley(candidates, point, k, last=k),
}


def draw(seed, candidates=9, points=4, dim=3, classes=3):
    drawn = torch.Generator().manual_seed(seed)
    made = []
    for n in (candidates, points):
        h = torch.randn(n, dim, generator=drawn, dtype=torch.float64)
        made += [h, torch.randint(classes, (n,), generator=drawn)]
    return made


def pairs(h, y):
    return list(zip(h.tolist(), y.tolist(), strict=True))


def by(shapley, h, y, points, truths, k):
    return [shapley(pairs(h, y), point, k) for point in pairs(points, truths)]


@pytest.mark.parametrize(("candidates", "k"), [(1, 1), (2, 3), (9, 1), (9, 3), (9, 9), (24, 3)])
def test_values_follow_the_recursion(candidates, k):
    for seed in range(5):
        drawn = draw(seed, candidates)
        assert np.allclose(ours.shapley(*drawn, k), by(aser.shapley, *drawn, k), rtol=0, atol=1e-12)


@pytest.mark.parametrize("mutation", ["without min(K, m) / m", "min(K, m) alone", "1 / m", "the last by K"])
def test_a_wrong_recursion_is_noticed(mutation):
    drawn = draw(0)
    assert not np.allclose(ours.shapley(*drawn, 3), by(WRONG[mutation], *drawn, 3), rtol=0, atol=1e-3)


def test_values_by_hand():
    """On a line: the point at 0, candidates at 1 (wrong), 2 (right), 3 (right), 4 (wrong), K = 2.

    s4 = 0/4; s3 = 0 + 1/2 * 2/3 = 1/3; s2 = 1/3 + 0 = 1/3; s1 = 1/3 - 1/2 * 1 = -1/6. Their sum is 1/2: of the two
    nearest, one votes for the class.
    """
    places, labels = torch.tensor([[3.0], [1.0], [4.0], [2.0]]), torch.tensor([5, 6, 6, 5])
    values = ours.shapley(places, labels, torch.zeros(1, 1), torch.tensor([5]), 2)
    assert values.tolist() == [pytest.approx([1 / 3, -1 / 6, 0, 1 / 3])]


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_values_are_those_of_the_definition(k):
    """Shapley's mean over all coalitions of the utility of a K-nearest-neighbour vote, with no recursion in it."""
    for seed in range(3):
        drawn = draw(seed, candidates=6, points=2)
        assert np.allclose(ours.shapley(*drawn, k), by(aser.defined, *drawn, k), rtol=0, atol=1e-12)


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(0, 20))
def test_values_sum_to_the_utility(seed, k, more):
    h, y, points, truths = draw(seed, candidates=k + more)
    sums = ours.shapley(h, y, points, truths, k).sum(1)
    everyone = set(range(len(h)))
    expected = [aser.utility(everyone, pairs(h, y), point, k) for point in pairs(points, truths)]
    assert np.allclose(sums, expected, rtol=0, atol=1e-12)


def test_the_order_of_candidates_does_not_matter():
    h, y, points, truths = draw(0)
    turned = torch.randperm(9, generator=generator(0, "test"))
    values = ours.shapley(h, y, points, truths, 3)
    assert torch.equal(ours.shapley(h[turned], y[turned], points, truths, 3), values[:, turned])


# Retrieval and storage ------------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(monkeypatch):
    """The batches whose features were asked for, with the features."""
    calls, features = [], ours.features

    def record(learner, *batches):
        calls.append((batches, features(learner, *batches)))
        return calls[-1][1]

    monkeypatch.setattr(ours, "features", record)
    return calls


def trained(method="aser", seed=0, steps=6, memory=24, replay=4):
    drawn = torch.Generator().manual_seed(seed)
    with seeded(seed, "init"):
        learner = Learner(MLP((4,), 6), method, memory=memory, replay=replay, seed=seed, device="cpu")
    samples, labels = torch.randn(steps + 1, 6, 4, generator=drawn), torch.randint(3, (steps + 1, 6), generator=drawn)
    for x, y in zip(samples[:-1], labels[:-1], strict=True):
        learner.observe(x, y)
    rows = {label: row for row, label in enumerate(learner.labels)}
    return learner, Batch(samples[-1], torch.tensor([rows[label] for label in labels[-1].tolist()]))


def hidden(learner, batch):
    """A batch as pairs of feature and class, the features made by hand."""
    layer = mir.layers(learner.network.state_dict())["neck"]
    return [(aser.feature(layer, x), y) for x, y in zip(batch.x.double().tolist(), batch.y.tolist(), strict=True)]


def best(chosen, values):
    """Whether these are the highest values, whichever of equal ones was taken."""
    return np.allclose(sorted(chosen), sorted(values)[len(values) - len(chosen) :], rtol=0, atol=1e-6)


def retrieve(seed, recorded, method="aser"):
    """The slots that came back, those of all candidates, and what the reference needs to value them."""
    learner, batch = trained(method, seed)
    recorded.clear()
    slots = learner.method.retrieval(learner, batch).slots.tolist()
    [((candidates, friends, stream), _)] = recorded
    assert stream is batch
    return learner, slots, (candidates, friends, batch)


@pytest.mark.parametrize("method", ["aser", "aser(k=1)", "aser(n=3)", "aser+uer"])
def test_the_most_valuable_come_back(method, recorded):
    for seed in range(5):
        learner, slots, batches = retrieve(seed, recorded, method)
        k = learner.method.retrieval.k
        values = aser.retrieval(*[hidden(learner, batch) for batch in batches], k)
        value = dict(zip(batches[0].slots.tolist(), values, strict=True))
        assert len(set(slots)) == 4
        assert best([value[slot] for slot in slots], values)


RETRIEVALS = {
    "signs swapped": lambda c, f, b: aser.retrieval(c, b, f, 3),
    "cooperative alone": lambda c, f, b: aser.summed(c, f, 3),
    "adversarial alone": lambda c, f, b: [-v for v in aser.summed(c, b, 3)],
    "one neighbour": lambda c, f, b: aser.retrieval(c, f, b, 1),
    "without min(K, m) / m": lambda c, f, b: aser.retrieval(c, f, b, 3, WRONG["without min(K, m) / m"]),
}


@pytest.mark.parametrize("mutation", RETRIEVALS)
def test_a_wrong_retrieval_is_noticed(mutation, recorded):
    noticed = False
    for seed in range(12):
        learner, slots, batches = retrieve(seed, recorded)
        values = RETRIEVALS[mutation](*[hidden(learner, batch) for batch in batches])
        value = dict(zip(batches[0].slots.tolist(), values, strict=True))
        noticed |= not best([value[slot] for slot in slots], values)
    assert noticed


@pytest.mark.parametrize("n", [1, 2])
def test_candidates_and_friends_are_balanced_and_disjoint(n, recorded):
    learner, _, (candidates, friends, _) = retrieve(0, recorded, f"aser(n={n})")
    assert min(learner.memory.counts().values()) >= 2 * n
    for batch in (candidates, friends):
        assert batch.y.bincount().tolist() == [n] * 3
    assert not set(candidates.slots.tolist()) & set(friends.slots.tolist())


def held(labels):
    memory = Memory(len(labels))
    memory.write(torch.arange(len(labels)), Batch(torch.zeros(len(labels), 1), torch.tensor(labels)))
    return memory


def test_a_rare_class_gives_what_it_has():
    memory, drawn, seen = held([0, 0, 0, 0, 1, 2, 2]), generator(0, "test"), set()
    for _ in range(50):
        slots = ours.balanced(memory, 2, drawn)
        assert memory.columns["y"][slots].bincount().tolist() == [2, 1, 2]
        others = ours.balanced(memory, 2, drawn, without=slots)
        assert memory.columns["y"][others].tolist() == [0, 0]
        assert not set(slots.tolist()) & set(others.tolist())
        seen |= set(slots.tolist())
    assert seen == set(range(7))


def test_retrieval_is_random_until_the_stream_overflows_the_memory(recorded):
    learner, batch = trained(steps=4)
    assert learner.memory.offered == learner.memory.size == len(learner.memory)
    learner.method.retrieval(learner, batch)
    assert recorded == []
    learner.observe(batch.x, [learner.labels[row] for row in batch.y.tolist()])
    recorded.clear()
    learner.method.retrieval(learner, batch)
    assert len(recorded) == 1


def test_features_are_raw_and_in_eval_mode(learner, images, recorded):
    made = learner("aser", augment="scr", views="concat")
    for x, y in images(5):
        made.observe(x, y)
    recorded.clear()
    [(x, y)] = images(1, seed=1)
    before = copy.deepcopy(made.network).eval()
    made.observe(x, y)
    after = copy.deepcopy(made.network).eval()
    assert len(recorded) == 2  # retrieval before the step, storage after it
    with torch.no_grad():
        for network, (batches, features) in zip((before, after), recorded, strict=True):
            for batch, found in zip(batches, features, strict=True):
                assert torch.allclose(found, network.features(unit(batch.x)), atol=1e-5)
        assert not torch.allclose(before.features(unit(x)), after.features(unit(x)), atol=1e-3)


def store(seed, recorded, method="aser"):
    """The learner after a decision, its memory before, the three batches in it, and the rare rows of the second."""
    learner, batch = trained(method, seed)
    rows, rare = [], HighestShapley.rare
    before = learner.memory.columns["x"].clone()
    recorded.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HighestShapley, "rare", lambda *given: rows.append(rare(*given)) or rows[-1])
        learner.method.storage(learner, batch)
    [(batches, _)] = recorded
    assert torch.equal(batches[1].x, batch.x)
    return learner, before, batches, rows[0].nonzero().flatten().tolist()


def kept(learner, before, stored, late):
    """Which candidates the memory holds now, those of the batch counted after the others."""
    x = learner.memory.columns["x"]
    stayed = [i for i, slot in enumerate(stored.slots.tolist()) if torch.equal(x[slot], before[slot])]
    return stayed + [len(stored) + i for i in range(len(late)) if (x == late.x[i]).all(1).any()]


def decided(seed, recorded, mutate=lambda *given: aser.summed(*given), rarely=True, method="aser"):
    """Whether the memory kept the candidates of the highest values."""
    learner, before, (stored, late, points), rare = store(seed, recorded, method)
    candidates, evaluation = hidden(learner, stored) + hidden(learner, late), hidden(learner, points)
    if rarely:
        evaluation = evaluation + [hidden(learner, late)[i] for i in rare]
    values = mutate(candidates, evaluation, learner.method.storage.k)
    held = kept(learner, before, stored, late)
    assert len(held) == len(stored)
    return best([values[i] for i in held], values), len(held) - sum(i < len(stored) for i in held), len(rare)


@pytest.mark.parametrize("method", ["aser", "aser(k=1, n=3)", "aser+uer"])
def test_the_most_valuable_stay(method, recorded):
    found = [decided(seed, recorded, method=method) for seed in range(8)]
    assert all(right for right, _, _ in found)
    assert any(entered for _, entered, _ in found)
    assert any(rare for _, _, rare in found)


STORAGES = {
    "the lowest values": {"mutate": lambda *given: [-v for v in aser.summed(*given)]},
    "without the rare samples": {"rarely": False},
    "without min(K, m) / m": {"mutate": lambda *given: aser.summed(*given, WRONG["without min(K, m) / m"])},
    "one neighbour": {"mutate": lambda candidates, points, k: aser.summed(candidates, points, 1)},
    "the first point alone": {"mutate": lambda candidates, points, k: aser.summed(candidates, points[:1], k)},
}


@pytest.mark.parametrize("mutation", STORAGES)
def test_a_wrong_storage_is_noticed(mutation, recorded):
    assert not all(decided(seed, recorded, **STORAGES[mutation])[0] for seed in range(12))


def test_candidates_of_storage_lie_outside_the_evaluation(recorded):
    for seed in range(5):
        learner, before, (stored, _, points), _ = store(seed, recorded)
        assert len(stored) == 2 * 3
        assert points.y.bincount().tolist() == [2] * 3
        assert not set(stored.slots.tolist()) & set(points.slots.tolist())
        others = ours.outside(learner.memory, stored.slots)
        assert torch.equal(learner.memory.columns["x"][others], before[others])


def numbered(first, labels, at):
    """Samples on a line, numbered in their second value."""
    x = torch.tensor([[place, first + i] for i, place in enumerate(at)], dtype=torch.float32)
    return Batch(x, torch.tensor(labels))


class Line:
    """A learner whose features are places on a line, with a memory of a given size."""

    def __init__(self, monkeypatch, size, classes=2):
        self.memory = Memory(size)
        self.generators = {"storage": generator(0, "storage")}
        self.labels = list(range(classes))
        monkeypatch.setattr(ours, "features", lambda _, *batches: [batch.x[:, :1] for batch in batches])

    def numbers(self):
        return self.memory.read(torch.arange(len(self.memory))).x[:, 1].int().tolist()


@pytest.mark.parametrize(("sign", "late"), [(-1, set()), (1, {5, 6})])
def test_a_batch_that_straddles_the_end_fills_the_room_first(sign, late, monkeypatch):
    """Only what comes after the room competes: all of it enters if it is worth most, none if it is worth least."""
    line = Line(monkeypatch, 5)
    monkeypatch.setattr(ours, "shapley", lambda c, *_: sign * torch.arange(len(c)).unsqueeze(0))
    storage = HighestShapley(k=1, n=1)
    storage(line, numbered(0, [0, 0, 1], [0, 0.1, 9]))
    assert line.numbers() == [0, 1, 2]
    storage(line, numbered(3, [1, 0, 1, 0], [9.1, 0.2, 0.3, 9.3]))
    numbers = line.numbers()
    assert set(numbers) & {5, 6} == late
    assert all(number in (slot, 5, 6) for slot, number in enumerate(numbers))
    assert len(set(numbers)) == 5
    assert line.memory.offered == 7


def test_a_replacement_by_hand(monkeypatch):
    """One neighbour, class 0 at 0 and class 1 at 9; slots 0 and 1 evaluate, slots 2 and 3 and the new sample compete.

    For the point at 0: slot 2 (a 1 at 0.1) -1/2, the new 0 at 0.2 1/2, slot 3 (a 1 at 9.1) 0; for the point at 9:
    1/3, -1/6, 5/6. The sums are -1/6, 1/3, 5/6, so that slot 2 must go. A new 1 at 0.1 would have to go itself.
    """
    line = Line(monkeypatch, 4)
    storage = HighestShapley(k=1, n=1)
    storage(line, numbered(0, [0, 1, 1, 1], [0, 9, 0.1, 9.1]))
    monkeypatch.setattr(ours, "balanced", lambda *_: torch.tensor([0, 1]))
    monkeypatch.setattr(HighestShapley, "rare", lambda *_: torch.tensor([False]))
    values = aser.summed([([0.1], 1), ([9.1], 1), ([0.2], 0)], [([0.0], 0), ([9.0], 1)], 1)
    assert values == pytest.approx([-1 / 6, 5 / 6, 1 / 3])
    storage(line, numbered(4, [0], [0.2]))
    assert line.numbers() == [0, 1, 4, 3]
    storage(line, numbered(5, [1], [0.1]))
    assert line.numbers() == [0, 1, 4, 3]


@given(st.integers(1, 8), st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(1, 3), st.integers(0, 50))
def test_a_full_memory_stays_full_and_holds_no_sample_twice(size, lengths, n, seed):
    drawn = torch.Generator().manual_seed(seed)
    with pytest.MonkeyPatch.context() as patch:
        line, offered = Line(patch, size, classes=3), 0
        for length in lengths:
            labels, at = torch.randint(3, (length,), generator=drawn), torch.rand(length, generator=drawn)
            HighestShapley(k=3, n=n)(line, numbered(offered, labels.tolist(), at.tolist()))
            offered += length
            assert len(line.memory) == min(size, offered)
            assert len(set(line.numbers())) == len(line.memory)
            assert set(line.numbers()) <= set(range(offered))
            assert line.memory.offered == offered


def test_rare_classes_are_evaluated_more_often():
    """Shares 1/2, 1/4 and 0 of the memory against U(0, 1/3): never, with probability 1/4, always."""
    learner = SimpleNamespace(memory=held([0, 0, 1, 2]), labels=[0, 1, 2], generators={"storage": generator(0, "test")})
    trials = 4000
    batch = Batch(torch.zeros(3 * trials, 1), torch.tensor([0, 1, 3]).repeat(trials))
    always = HighestShapley().rare(learner, batch).view(trials, 3).sum(0).tolist()
    assert always[0] == 0
    assert abs(always[1] - trials / 4) < 4 * math.sqrt(trials * 3 / 16)
    assert always[2] == trials


@pytest.mark.parametrize("size", [0, 1, 2])
def test_tiny_memories(size, learner, images):
    made = learner("aser", "mlp", memory=size)
    for x, y in images(4):
        made.observe(x, y)
    assert len(made.memory) == size


def test_later_classes_find_a_place_in_a_memory_of_evaluation_points(learner, images):
    made = learner("aser", "mlp", memory=8)
    for x, _ in images(4, classes=1):
        for label in range(6):
            made.observe(x, [label] * len(x))
    assert len(made.memory.label_counts()) > 4  # two points of four classes fill it


# Options --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("replayed", [10, 4])
def test_one_mean_over_all_samples(views, replayed, train):
    made = train("aser(reduction='joint')", "mlp", batches=2)
    drawn = torch.Generator().manual_seed(0)
    batches = []
    for n in (10, replayed):
        x = torch.rand(views * n, 1, 8, 8, generator=drawn)
        batches.append(Batch(x[:n], torch.randint(4, (n,), generator=drawn), views=x))
    losses = made.method.objective(made, *batches)
    [logits] = made.network(torch.cat([batch.views for batch in batches]))
    y = torch.cat([batch.y.repeat(views) for batch in batches])
    rows = [-logits[i].log_softmax(0)[y[i]] for i in range(len(y))]
    assert losses.total.item() == pytest.approx(sum(rows).item() / len(rows), abs=1e-6)
    summed = resolve("aser").objective(made, *batches).total.item()
    assert summed == pytest.approx(
        (sum(rows[: views * 10]) / (views * 10) + sum(rows[views * 10 :]) / (views * replayed)).item(), abs=1e-6
    )
    assert made.method.objective(made, batches[0], None).total.item() == pytest.approx(
        sum(rows[: views * 10]).item() / (views * 10), abs=1e-6
    )


@pytest.mark.parametrize("field", ["k", "n"])
@pytest.mark.parametrize("value", [0, -1, 2.0, True, "three"])
def test_counts_are_checked(field, value):
    for part in (Shapley, AdversarialShapley, HighestShapley):
        with pytest.raises(InputError, match=f"'{field}' parameter of aser must be a whole number of at least 1"):
            part(**{field: value})


def test_the_reduction_is_checked():
    with pytest.raises(InputError, match="'reduction' parameter of aser must be one of sum, joint. Got 'mean' instead"):
        resolve("aser(reduction='mean')")


def test_options_reach_both_parts():
    method = resolve("aser(k=5, n=9)")
    assert (method.retrieval, method.storage) == (AdversarialShapley(5, 9), HighestShapley(5, 9))


@pytest.mark.parametrize("count", [20, 40])
def test_near_neighbours_are_told_apart(count):
    drawn = torch.Generator().manual_seed(0)
    h, y = 5 + torch.rand(count, 160, generator=drawn) * 0.02, torch.randint(3, (count,), generator=drawn)
    points, truths = 5 + torch.rand(4, 160, generator=drawn) * 0.02, torch.randint(3, (4,), generator=drawn)
    expected = by(aser.shapley, h.double(), y, points.double(), truths, 3)
    assert np.allclose(ours.shapley(h, y, points, truths, 3), expected, atol=1e-5)


def test_a_sample_is_its_own_nearest_neighbour():
    drawn = torch.Generator().manual_seed(0)
    h = torch.rand(20, 160, generator=drawn)
    h = torch.cat([h, h + 1e-4 * torch.randn(20, 160, generator=drawn)])
    y = torch.cat([torch.arange(20), torch.full((20,), 20)])  # each near twin is of another class
    assert torch.allclose(ours.shapley(h, y, h[:10], y[:10], 1).sum(1), torch.ones(10))
