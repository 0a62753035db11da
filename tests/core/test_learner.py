"""`observe` and `predict`: what is learned of the stream, the replay, a second batch and their views, and how often."""

import numpy as np
import pytest
import torch

from evenhand import Learner, part, resolve
from evenhand.backbones import ReducedResNet18
from evenhand.core import admission
from evenhand.core.augment import scr
from evenhand.core.batch import unit
from evenhand.core.draws import generator
from evenhand.methods.er import CrossEntropy, Uniform


def test_scores_and_predictions_agree(train, images):
    made = train("uer")
    [(x, _)] = images(1, size=30)
    scores = made.scores(x)
    assert scores.shape == (30, 4)
    assert made.predict(x) == [made.labels[row] for row in scores.argmax(1).tolist()]


def test_scores_do_not_depend_on_the_company(train, images):
    made = train("uer")
    [(x, _)] = images(1, size=300)
    alone = torch.cat([made.scores(x[i : i + 1]) for i in range(300)])
    assert torch.allclose(made.scores(x), alone, atol=1e-5)


def test_a_learner_learns(learner, images):
    made = learner("uer")
    for x, y in images(60):
        made.observe(x, y)
    [(x, y)] = images(1, size=200, seed=99)
    assert np.mean([a == b for a, b in zip(made.predict(x), y, strict=True)]) > 0.9


def test_finetune_keeps_nothing(train):
    made = train("finetune")
    assert (len(made.memory), made.memory.offered, made.memory.columns) == (0, 0, {})


def test_a_memory_of_size_0_is_finetune(train):
    er, finetune = train("er", memory=0), train("finetune")
    for one, other in zip(er.network.parameters(), finetune.network.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_memory_never_holds_more_than_its_size(train):
    made = train("uer", memory=7)
    assert len(made.memory) == 7
    assert made.memory.columns["x"].shape == (7, 1, 8, 8)
    assert made.memory.offered == 160


@pytest.mark.parametrize(("backbone", "alike"), [("mlp", True), ("cnn", False)])
def test_passes_differ_through_batch_normalisation_alone(backbone, alike, train):
    joint, separate = (train("uer", backbone, passes=passes).network for passes in ("joint", "separate"))
    close = [torch.allclose(a, b, atol=1e-5) for a, b in zip(joint.parameters(), separate.parameters(), strict=True)]
    assert all(close) == alike


def test_a_stream_of_single_small_images(images):
    """Batch normalisation of maps of 1x1 cannot normalise the first one; later ones come with a replay."""
    learner = Learner(ReducedResNet18((1, 8, 8), width=2), device="cpu")
    before = [parameter.clone() for parameter in learner.network.trunk.parameters()]
    singles = [(x[i : i + 1], y[i : i + 1]) for x, y in images(6) for i in range(10)]
    with pytest.warns(UserWarning, match="cannot normalise a single sample"):
        learner.observe(*singles[0])
    for x, y in singles[1:]:
        learner.observe(x, y)
    assert learner.steps == len(learner.memory) == 60
    assert any(not torch.equal(a, b) for a, b in zip(before, learner.network.trunk.parameters(), strict=True))
    assert learner.network.training
    x, y = images(1, size=40, seed=5)[0]
    assert sum(a == b for a, b in zip(learner.predict(x), y, strict=True)) > 15


def test_a_second_batch_takes_the_place_of_the_replay(learner, images):
    """Two batches side by side are learned as a batch and the memory that holds just the other one."""
    (x, y), (x2, y2) = images(2)
    paired, replayed = learner("uer", "mlp", replay=10), learner("uer", "mlp", memory=10, replay=10)
    for made in (paired, replayed):
        admission.register(made, y)  # the classes first, so that both heads start with the same rows
    replayed.memory.write(torch.arange(10), admission.registered_batch(replayed, x2, y2))
    replayed.observe(x, y)
    paired.observe(x, y, second=(x2, y2))
    for one, other in zip(paired.network.parameters(), replayed.network.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    assert len(paired.memory) == 0
    assert paired.memory.offered == 0
    assert paired.steps == 1


def test_a_second_batch_has_the_views_of_a_replay(learner, images):
    made = learner("er", augment="scr")
    before = {purpose: drawn.get_state() for purpose, drawn in made.generators.items()}
    (x, y), second = images(2)
    made.observe(x, y, second=second)
    moved = {name for name, drawn in made.generators.items() if not torch.equal(drawn.get_state(), before[name])}
    assert moved == {"head", "augment/stream", "augment/replay"}


def test_classes_of_a_second_batch_are_learned(learner, images):
    made = learner("er")
    (x, _), (x2, _) = images(2, size=2)
    made.observe(x, ["a", "b"], second=(x2, ["c", "a"]))
    assert made.labels == ["a", "b", "c"]
    assert set(made.predict(x2)) <= {"a", "b", "c"}


def test_iterations_learn_a_batch_several_times_and_store_it_once(learner, images):
    thrice, once = learner("finetune", "mlp", iterations=3), learner("finetune", "mlp")
    [(x, y)] = images(1)
    thrice.observe(x, y)
    for _ in range(3):
        once.observe(x, y)
    assert torch.equal(thrice.network.head.weight, once.network.head.weight)
    stored = learner("er", iterations=3)
    stored.observe(x, y)
    assert (len(stored.memory), stored.memory.offered, stored.steps) == (10, 10, 1)


@pytest.mark.parametrize("views", ["replace", "concat"])
def test_the_network_is_shown_the_views_asked_for(views, learner, images):
    """Batch and replay each draw from a generator of their own; the raw images come first, if they come."""
    shown = []

    @part(f"tests.Watching.{views}")
    class Watching(CrossEntropy):
        def __call__(self, learner, batch, replay):
            shown.append((batch, replay))
            return CrossEntropy.__call__(self, learner, batch, replay)

    made = learner(resolve("er").but(objective=Watching()), augment="scr", views=views, seed=4)
    draws = {purpose: generator(4, f"augment/{purpose}") for purpose in ("stream", "replay")}
    for x, y in images(3):
        made.observe(x, y)
        for purpose, batch in zip(draws, shown[-1], strict=True):
            if batch is not None:
                seen = scr(unit(batch.x), draws[purpose])
                expected = seen if views == "replace" else torch.cat([unit(batch.x), seen])
                assert torch.equal(batch.inputs, expected)
                assert len(batch.targets) == len(batch.inputs)
    assert [replay is None for _, replay in shown] == [True, False, False]


def test_boundaries_reach_the_parts_that_listen(learner):
    heard = []

    @part("tests.Listening")
    class Listening(Uniform):
        def boundary(self, learner):
            heard.append(learner)

    made = learner(resolve("er").but(retrieval=Listening()))
    made.boundary()
    assert heard == [made]
    silent = learner("er")
    silent.boundary()
    assert silent.method.parts("boundary") == []
