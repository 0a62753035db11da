"""What a part keeps between steps: its own copies, saved and restored to the bit."""

import math

import pytest
import torch
import torch.nn.functional as F

from evenhand import Learner, Losses, Method, Network, part, resolve
from evenhand.checks import Subject, examine
from evenhand.core.kept import Kept
from evenhand.errors import InputError
from evenhand.methods.er import CrossEntropy, er


@part("tests.core.test_kept.Anchored")
class Anchored(CrossEntropy):
    """A third party's objective: stay near a teacher that is renewed now and then, and near a running mean feature."""

    def __call__(self, learner, batch, replay):
        losses = CrossEntropy.__call__(self, learner, batch, replay)
        h = learner.network.features(batch.inputs)
        loss = losses.learning
        if "anchored.teacher" in learner.kept:
            teacher = learner.kept["anchored.teacher"]
            taught = teacher.logits(teacher.features(batch.inputs))
            loss = loss + 0.1 * F.mse_loss(learner.network.logits(h)[:, : teacher.rows], taught)
            loss = loss + 0.01 * (h.mean(0) - learner.kept["anchored.mean"]).square().sum()
        return Losses(loss, losses.replaying)


@part("tests.core.test_kept.Renewing")
class Renewing:
    """Stores as ER does, and renews what the objective uses."""

    every: int = 2

    def __call__(self, learner, batch):
        er().storage(learner, batch)
        steps = learner.kept.get("anchored.steps", 0) + 1
        learner.kept["anchored.steps"] = steps
        if steps % self.every == 0:
            learner.kept["anchored.teacher"] = learner.network
            learner.kept["anchored.mean"] = learner.eval_copy().features(batch.inputs).mean(0)


def anchored() -> Method:
    return er().but(objective=Anchored(), storage=Renewing())


@pytest.fixture
def made(train, images):
    """A learner whose network has more rows than the teacher it keeps."""
    made = train(anchored(), batches=2)
    made.observe(*images(1, classes=6, seed=4)[0])
    return made


def test_a_third_partys_part_resumes_to_the_same_bits(made, images, same, tmp_path):
    made.save(tmp_path / "state")
    loaded = Learner.load(tmp_path / "state", device="cpu")
    assert same(made, loaded)
    assert made.facts() == loaded.facts()
    assert loaded.kept["anchored.teacher"].rows == 4 < loaded.network.rows
    for x, y in images(4, classes=6, seed=5):
        made.observe(x, y)
        loaded.observe(x, y)
    assert same(made, loaded)
    assert made.facts() == loaded.facts()
    assert made.kept["anchored.steps"] == 9


@pytest.mark.parametrize("name", ["anchored.teacher", "anchored.mean", "anchored.steps"])
def test_it_matters_that_each_of_them_is_restored(name, made, images, same, tmp_path):
    made.save(tmp_path / "state")
    loaded = Learner.load(tmp_path / "state", device="cpu")
    if name == "anchored.teacher":
        loaded.kept[name].head.weight.neg_()
    else:
        loaded.kept[name] = loaded.kept[name] + 1
    for x, y in images(2, classes=6, seed=5):
        made.observe(x, y)
        loaded.observe(x, y)
    assert not same(made, loaded, but=["kept"])


@pytest.mark.parametrize("check", ["resumes to the same bits", "predict changes nothing", "objective without memory"])
def test_such_a_method_keeps_its_promises(check):
    assert examine(Subject("anchored", anchored()), check).state == "passed"


def test_assigning_stores_a_copy():
    kept, tensor, network, value = Kept(), torch.zeros(2, requires_grad=True), Network(torch.nn.Linear(2, 3), 3), [1]
    kept.update(tensor=tensor, network=network, value=value)
    with torch.no_grad():
        tensor.add_(1)
        network.trunk.weight.zero_()
    value.append(2)
    assert kept["tensor"].tolist() == [0, 0]
    assert not kept["tensor"].requires_grad
    assert kept["network"].trunk.weight.any()
    assert not kept["network"].training
    assert not any(parameter.requires_grad for parameter in kept["network"].parameters())
    assert network.training
    assert all(parameter.requires_grad for parameter in network.parameters())
    assert kept["value"] == [1]


@pytest.mark.parametrize("value", [(1, 2), {1: "a"}, object(), math.nan, torch.nn.Linear(1, 1), {1, 2}])
def test_what_json_does_not_return_unchanged_is_refused(value):
    kept = Kept()
    with pytest.raises(InputError, match=r"The kept value 'mine' must be a tensor, a Network, or a value that JSON"):
        kept["mine"] = value
    assert "mine" not in kept


def test_two_methods_that_count_stages_compose(train):
    made = train("ss_il+er_wa")
    for _ in range(2):
        made.boundary()
    assert made.method == resolve("er_wa+ss_il")
    assert made.kept["ss_il.stages"] == made.kept["er_wa.stages"] == [4, 4]
