"""What `observe` returns, test-then-train, probabilities, and augmentations of the user's own."""

import pytest
import torch
from torch import nn

from evenhand import Learner
from evenhand.backbones import MLP
from evenhand.errors import InputError


def series(steps, classes=4, seed=0):
    drawn = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        y = torch.randint(classes, (10,), generator=drawn)
        yield torch.randn(10, 6, generator=drawn) + 2 * nn.functional.one_hot(y, 6), [f"class {i}" for i in y.tolist()]


def plain():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))


def normalised():
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))


def made(model=plain, method="uer", **options):
    torch.manual_seed(0)
    return Learner(model(), method, memory=40, device="cpu", **options)


def test_the_record_of_a_step():
    learner, heard = made(), []
    learner.on_step = heard.append
    records = [learner.observe(x, y) for x, y in series(5)]
    assert [record.steps for record in records] == [1, 2, 3, 4, 5]
    assert [label for record in records for label in record.new] == learner.labels
    assert records[0].replaying is None
    assert all(record.learning > 0 and record.replaying > 0 for record in records[1:])
    assert all(record.predicted is None for record in records)
    assert heard == records
    assert repr(records[1]).startswith(f"Observation(step 2, learning {records[1].learning:.4g}, replaying ")


def test_a_record_holds_no_graph():
    learner = made()
    record = [learner.observe(x, y) for x, y in series(2)][-1]
    assert record.losses.learning.grad_fn is None
    assert record.losses.keep == {}


@pytest.mark.parametrize(
    ("model", "method", "free"),
    [
        (plain, "uer", True),
        (plain, "er", True),
        (plain, "mir", True),
        (normalised, "uer", False),
        (plain, "uer+ema", False),
    ],
)
def test_predictions_before_learning_are_those_of_predict(model, method, free, same, monkeypatch):
    testing, asked = made(model, method), made(model, method)
    assert testing.prequential.free == free
    right = 0
    for step, (x, y) in enumerate(series(30)):
        expected = asked.predict(x) if step else [None] * 10
        asked.observe(x, y)
        if free:
            monkeypatch.setattr(testing, "predict", None)  # the pass of the step must do
        record = testing.observe(x, y, predict=True)
        assert record.predicted == expected
        right += sum(a == b for a, b in zip(expected, y, strict=True))
    assert testing.accuracy == right / 300 > 0.5
    assert asked.accuracy is None
    assert same(testing, asked, but=["prequential"])


@pytest.mark.parametrize("options", [{"memory": 0}, {"memory": 40, "keep": ["class 0", "class 1"]}])
def test_a_step_without_a_pass_is_predicted_all_the_same(options):
    torch.manual_seed(0)
    learner = Learner(plain(), "pcr", device="cpu", **options)
    for x, y in series(3):
        expected = learner.predict(x) if learner.labels else [None] * 10
        assert learner.observe(x, y, predict=True).predicted == expected
        assert learner.prequential.awaited is None
    learner.forget(where=lambda x: x[:, 0] == x[:, 0])
    expected = learner.predict(x)
    assert learner.observe(x, y, predict=True).predicted == expected
    assert learner.prequential.asked == 40


def test_no_batch_is_awaited_after_a_step_that_failed(monkeypatch):
    learner = trained(made())
    monkeypatch.setattr(learner, "features", lambda *batches: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        learner.observe(*next(series(1)), predict=True)
    assert learner.prequential.awaited is None


def test_the_running_accuracy_is_saved(tmp_path):
    learner = made()
    for x, y in series(10):
        learner.observe(x, y, predict=True)
    learner.save(tmp_path / "state")
    assert Learner.load(tmp_path / "state", plain(), device="cpu").accuracy == learner.accuracy


@pytest.mark.parametrize("method", ["uer", "er", "lucir", "pcr"])
def test_probabilities_are_those_of_the_scores(method):
    learner = made(method=method)
    for x, y in series(5):
        learner.observe(x, y)
    p = learner.predict_proba(x)
    assert torch.allclose(p.sum(1), torch.ones(10))
    assert torch.equal(p, learner.scores(x).softmax(1))
    assert [learner.labels[row] for row in p.argmax(1).tolist()] == learner.predict(x)


def test_a_nearest_mean_has_no_probabilities():
    learner = made(method="uer", tests="ncm")
    for x, y in series(5):
        learner.observe(x, y)
    with pytest.raises(InputError, match="NearestMean scores by similarity, not by probability"):
        learner.predict_proba(x, test="ncm")
    assert learner.top(x, 1, test="ncm")[0][0][0] == learner.predict(x, test="ncm")[0]


def test_the_best_labels_with_their_scores():
    learner = made()
    for x, y in series(8):
        learner.observe(x, y)
    best = learner.top(x, 3)
    scores = learner.scores(x)
    for sample, row in zip(best, scores, strict=True):
        assert sample == [(learner.labels[i], row[i].item()) for i in row.argsort(descending=True)[:3].tolist()]
    assert len(learner.top(x, 99)[0]) == len(learner.labels)
    with pytest.raises(InputError, match="'count' of top"):
        learner.top(x, 0)


def noise(x):
    return x + torch.rand_like(x)


def test_an_augmentation_of_ones_own_is_seeded_and_asked_for_again(tmp_path, same):
    ends = []
    for outside in (1, 2):
        learner = made(augment=noise, views="concat")
        torch.manual_seed(outside)
        for x, y in series(4):
            learner.observe(x, y)
        ends.append(learner)
    assert same(*ends)
    assert not same(ends[0], trained(made()), but=["settings"])
    ends[0].save(tmp_path / "state")
    with pytest.raises(InputError, match=r"saved with a function as 'augment'\. Pass the same one as augment="):
        Learner.load(tmp_path / "state", plain(), device="cpu")
    back = Learner.load(tmp_path / "state", plain(), augment=noise, device="cpu")
    for learner in (back, ends[1]):
        learner.observe(*next(series(1, seed=5)))
    assert same(back, ends[1])


def trained(learner):
    for x, y in series(4):
        learner.observe(x, y)
    return learner


@pytest.mark.parametrize("augment", [lambda x: x[:, :2], lambda x: x.tolist()])
def test_an_augmentation_that_changes_the_shape(augment):
    learner = made(augment=augment)
    with pytest.raises(InputError, match=r"The augmentation of a learner must return a tensor of the shape \(10, 6\)"):
        trained(learner)
    assert learner.labels == []


def test_a_backbone_serves_by_its_step():
    assert Learner(MLP((6,)), device="cpu").prequential.free


@pytest.mark.parametrize("method", ["obc", "er", "uer"])
def test_what_a_step_tells_beforehand_is_what_predict_says(method):
    testing, asked = made(method=method), made(method=method)
    for seed in range(8):
        x = torch.randn(6, 6, generator=torch.Generator().manual_seed(seed))
        expected = asked.predict(x) if asked.labels else [None] * 6
        asked.observe(x, [0, 1] * 3)
        assert testing.observe(x, [0, 1] * 3, predict=True).predicted == expected


def test_what_computes_otherwise_in_training_is_predicted_by_a_pass_of_its_own():
    normed, hooked = plain(), plain()
    nn.utils.spectral_norm(normed[0])
    hooked[0].register_forward_hook(lambda module, _, output: output * (2 if module.training else 1))
    [(x, y)] = series(1)
    for learner in (made(lambda: normed), made(lambda: hooked)):
        assert not learner.prequential.free
        learner.observe(x, y)
        expected = learner.predict(x)
        assert learner.observe(x, y, predict=True).predicted == expected
