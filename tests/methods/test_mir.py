import numpy as np
import pytest
import torch

from evenhand import Batch, Learner
from evenhand.backbones import MLP
from evenhand.core.draws import seeded
from evenhand.errors import InputError
from evenhand.methods.mir import MostInterfered
from reference import mir

DOT, COS = [("dot", 1.0)], [("cos", 1.0)]
MIXED = [("dot", 0.3), ("cos", 0.7)]
METHODS = {
    "mir(candidates=12)": (DOT, DOT),
    "mir(candidates=12)+uer(alpha=0.3)": (COS, MIXED),
    "mir(candidates=12)+lucir": (COS, COS),
}


@pytest.fixture
def recorded(monkeypatch):
    """The candidates that were scored, and their scores before and after the virtual step."""
    calls, score = [], MostInterfered.score

    def record(self, learner, candidates):
        calls.append((candidates, score(self, learner, candidates)))
        return calls[-1][1]

    monkeypatch.setattr(MostInterfered, "score", record)
    return calls


def trained(method, hidden, seed, lr=0.4):
    """A learner of five classes with a filled memory, and a new batch."""
    drawn = torch.Generator().manual_seed(seed)
    with seeded(seed, "init"):
        learner = Learner(MLP((4,), hidden=hidden), method, memory=20, replay=4, lr=lr, seed=seed, device="cpu")
    for _ in range(6):
        learner.observe(torch.rand(6, 4, generator=drawn), torch.randint(5, (6,), generator=drawn))
    classes = len(learner.labels)
    return learner, Batch(torch.rand(6, 4, generator=drawn), torch.randint(classes, (6,), generator=drawn))


def pairs(batch):
    return list(zip(batch.x.double().tolist(), batch.y.tolist(), strict=True))


def found(learner, batch, recorded):
    """The scores, the slots that were scored and those that came back."""
    recorded.clear()
    replay = learner.method.retrieval(learner, batch)
    (candidates, before), (again, after) = recorded
    assert torch.equal(candidates.slots, again.slots)
    return candidates, (after - before).tolist(), replay.slots.tolist()


def agree(candidates, scores, slots, expected):
    value = dict(zip(candidates.slots.tolist(), expected, strict=True))
    best = [expected[i] for i in mir.largest(expected, len(slots))]
    chosen = [value[slot] for slot in slots]
    return np.allclose(scores, expected, rtol=0, atol=5e-6) and np.allclose(chosen, best, rtol=0, atol=5e-6)


@pytest.mark.parametrize("hidden", [0, 5])
@pytest.mark.parametrize("method", METHODS)
def test_the_most_interfered_come_back(method, hidden, recorded):
    learn, replay = METHODS[method]
    for seed in range(3):
        learner, batch = trained(method, hidden, seed)
        theta = mir.layers(learner.network.state_dict())
        candidates, scores, slots = found(learner, batch, recorded)
        assert len(scores) == 12
        assert len(slots) == 4
        assert np.ptp(scores) > 1e-2  # far above the tolerance
        expected = mir.scores(theta, pairs(batch), pairs(candidates), 0.4, learn, replay)
        assert agree(candidates, scores, slots, expected)


def mutants(learn, replay):
    """Wrong readings of the score, as functions of what the right one takes."""
    return {
        "before less after": lambda *given: [-s for s in mir.scores(*given, 0.4, learn, replay)],
        "a step upward": lambda *given: mir.scores(*given, -0.4, learn, replay),
        "a sum instead of a mean": lambda *given: mir.scores(*given, 2.4, learn, replay),
        "the loss after alone": lambda theta, batch, candidates: [
            mir.mixed(mir.virtual(theta, batch, learn, 0.4), x, y, replay)[0] for x, y in candidates
        ],
        "phases swapped": lambda *given: mir.scores(*given, 0.4, replay, learn),
        "candidates by the forms of learning": lambda *given: mir.scores(*given, 0.4, learn, learn),
        "the step by the forms of replaying": lambda *given: mir.scores(*given, 0.4, replay, replay),
    }


@pytest.mark.parametrize("mutation", mutants(COS, MIXED))
def test_a_wrong_score_is_noticed(mutation, recorded):
    learner, batch = trained("mir(candidates=12)+uer(alpha=0.3)", 5, 1)
    theta = mir.layers(learner.network.state_dict())
    candidates, scores, slots = found(learner, batch, recorded)
    expected = mutants(COS, MIXED)[mutation](theta, pairs(batch), pairs(candidates))
    assert not agree(candidates, scores, slots, expected)


def test_candidates_are_different_memories_drawn_anew(recorded):
    learner, batch = trained("mir(candidates=12)", 5, 0)
    seen = set()
    for _ in range(20):
        candidates, _, slots = found(learner, batch, recorded)
        assert len(set(candidates.slots.tolist())) == 12
        assert set(slots) <= set(candidates.slots.tolist())
        seen |= set(candidates.slots.tolist())
    assert seen == set(range(20))


def test_candidates_are_scored_by_their_raw_view(learner, images, recorded):
    made = learner("mir(candidates=15)", augment="scr", views="concat", replay=5)
    for x, y in images(3):
        made.observe(x, y)
    recorded.clear()
    [(x, y)] = images(1, seed=1)
    made.observe(x, y)
    assert [len(scores) for _, scores in recorded] == [15, 15]
    assert all(candidates.views is None for candidates, _ in recorded)


def test_a_memory_of_no_more_than_the_replay_comes_back_whole(learner, images, recorded):
    made = learner("mir", "mlp", replay=10)
    [(x, y), (more, _)] = images(2)
    assert made.method.retrieval(made, Batch(x, torch.tensor(y))) is None
    made.observe(x, y)
    replay = made.method.retrieval(made, Batch(more, torch.zeros(10, dtype=torch.int64)))
    assert sorted(replay.slots.tolist()) == list(range(10))
    assert recorded == []


@pytest.mark.parametrize("method", ["mir(candidates=5)", "er_dvc(candidates=5)"])
def test_fewer_candidates_than_replays_do_not_shorten_the_replay(method, learner, images):
    made = learner(method, memory=40, replay=10)
    for x, y in images(4):
        made.observe(x, y)
    [(x, y)] = images(1, seed=1)
    assert len(made.method.retrieval(made, Batch(x, torch.tensor(y)))) == 10


def test_memories_are_stored_as_by_er(train):
    """The first sample that leaves depends on the reservoir's draws alone."""
    mir_memory, er_memory = train("mir").memory.columns, train("er").memory.columns
    assert torch.equal(mir_memory["x"], er_memory["x"])
    assert torch.equal(mir_memory["y"], er_memory["y"])


@pytest.mark.parametrize("value", [0, -1, 2.5, True, "many"])
def test_the_number_of_candidates_is_checked(value):
    with pytest.raises(InputError, match="'candidates' parameter of mir must be a whole number of at least 1"):
        MostInterfered(candidates=value)
