"""Every method keeps its promises, and a method that breaks one is caught by the check of that promise."""

from dataclasses import dataclass

import pytest
import torch

from evenhand import checks, errors
from evenhand.checks import Subject
from evenhand.core import registry
from evenhand.core.batch import Losses
from evenhand.core.learner import Learner
from evenhand.core.parts import part
from evenhand.methods.er import Argmax, CrossEntropy, Reservoir, er


def composed():
    for name, recipe in registry.recipes().items():
        if recipe.way:
            continue
        try:
            registry.resolve(f"{name}+uer")
        except errors.InputError:
            continue
        yield f"{name}+uer"


def registered():
    for name in registry.recipes():
        for check in checks.CHECKS:
            late = check == "learns" and registry.cost(name) > 2
            yield pytest.param(name, check, marks=[pytest.mark.slow] if late else [], id=f"{name}-{check}")


@pytest.mark.parametrize(("name", "check"), list(registered()))
def test_conformance(name, check):
    outcome = checks.examine(checks.find(name), check)
    assert outcome.state != "failed", outcome.detail


@pytest.mark.parametrize(
    "check", [pytest.param(check, marks=[pytest.mark.slow] if check == "learns" else []) for check in checks.CHECKS]
)
@pytest.mark.parametrize("name", list(composed()))
def test_conformance_with_uer(name, check):
    outcome = checks.examine(checks.find(name), check)
    assert outcome.state != "failed", outcome.detail


@pytest.mark.filterwarnings("ignore:This hardware emulates bf16")
@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, marks=[] if check == "resumes to the same bits" else [pytest.mark.slow])
        for check in checks.CHECKS
        if check not in ("learns", "cost as documented", "frozen and json")
    ],
)
@pytest.mark.parametrize("name", [name for name, recipe in registry.recipes().items() if not recipe.way])
def test_conformance_in_bf16(name, check):
    outcome = checks.examine(checks.find(name, "bf16"), check)
    assert outcome.state != "failed", outcome.detail


class Loose:
    """Not frozen."""

    def __call__(self, learner, x):
        return Argmax()(learner, x)


@part("tests.NeedsTwo")
class NeedsTwo(CrossEntropy):
    def __call__(self, learner, batch, replay):
        batch.y[1]
        return CrossEntropy.__call__(self, learner, batch, replay)


@part("tests.NeedsTwoClasses")
class NeedsTwoClasses(CrossEntropy):
    def __call__(self, learner, batch, replay):
        if len(batch.y.unique()) < 2:
            raise ValueError("one class")
        return CrossEntropy.__call__(self, learner, batch, replay)


@part("tests.Hoard")
class Hoard(Reservoir):
    def __call__(self, learner, batch):
        learner.memory.size += len(batch)
        learner.memory.columns.clear()
        Reservoir.__call__(self, learner, batch)


@part("tests.SideEffect")
class SideEffect(CrossEntropy):
    def __call__(self, learner, batch, replay):
        learner.steps += 1
        return CrossEntropy.__call__(self, learner, batch, replay)


@part("tests.FirstFour")
class FirstFour(Argmax):
    def __call__(self, learner, x):
        return Argmax.__call__(self, learner, x)[:, :4]


@part("tests.ReadsLabels")
class ReadsLabels(CrossEntropy):
    def __call__(self, learner, batch, replay):
        losses = CrossEntropy.__call__(self, learner, batch, replay)
        return Losses(losses.learning * (1 + int(learner.labels[0] == 0)), losses.replaying)


@part("tests.DividesBySpread")
class DividesBySpread(CrossEntropy):
    def __call__(self, learner, batch, replay):
        losses = CrossEntropy.__call__(self, learner, batch, replay)
        return Losses(losses.learning / batch.inputs.std(), losses.replaying)


@part("tests.OneMore")
class OneMore(Argmax):
    def __call__(self, learner, x):
        scores = Argmax.__call__(self, learner, x)
        return torch.cat([scores, scores.amax(1, keepdim=True) + 1], dim=1)


@part("tests.DrawsInTest")
class DrawsInTest(Argmax):
    def __call__(self, learner, x):
        torch.rand(1, generator=learner.generators["retrieval"])
        return Argmax.__call__(self, learner, x)


@part("tests.Stale")
class Stale(CrossEntropy):
    def __call__(self, learner, batch, replay):
        losses = CrossEntropy.__call__(self, learner, batch, replay)
        return Losses(losses.learning * (1 + len(learner.snapshots.last.cache)), losses.replaying)


@part("tests.Recounts")
class Recounts(CrossEntropy):
    def __call__(self, learner, batch, replay):
        learner.replay += 1  # a setting, which no step may change
        return CrossEntropy.__call__(self, learner, batch, replay)


@part("tests.HeadOnly")
class HeadOnly(CrossEntropy):
    def __call__(self, learner, batch, replay):
        h, _ = learner.features(batch, replay)
        return Losses(learner.expect("learn", h.detach(), batch.cross_entropy))


@part("tests.GlobalDraw")
class GlobalDraw:
    def __call__(self, learner, batch):
        filled = len(learner.memory)
        return learner.recall(torch.randperm(filled)[: learner.replay])


@part("tests.HiddenState")
class HiddenState(CrossEntropy):
    def __call__(self, learner, batch, replay):
        learner.hidden = getattr(learner, "hidden", 0) + 1
        losses = CrossEntropy.__call__(self, learner, batch, replay)
        return Losses(losses.learning / learner.hidden, losses.replaying)


@part("tests.KeepsTwice")
class KeepsTwice(Reservoir):
    def __call__(self, learner, batch):
        Reservoir.__call__(self, learner, batch.with_({"copy": batch.x}))


@part("tests.SeesTests")
class SeesTests(CrossEntropy):
    def __call__(self, learner, batch, replay):
        losses = CrossEntropy.__call__(self, learner, batch, replay)
        return Losses(losses.learning * (1 + len(learner.ways.others())), losses.replaying)


@part("tests.AsksTheLiveWeights")
class AsksTheLiveWeights(Argmax):
    def __call__(self, learner, x):
        network = learner.folded_copy()
        return network.logits(network.features(x))


@dataclass(frozen=True)
class Unlisted(CrossEntropy):
    """A frozen part that JSON does not know."""


BROKEN = [
    ("frozen and json", {"prediction": Loose()}),
    ("frozen and json", {"objective": Unlisted()}),
    ("batch of one", {"objective": NeedsTwo()}),
    ("batch of one class", {"objective": NeedsTwoClasses()}),
    ("memory of any size", {"storage": Hoard()}),
    ("objective without memory", {"objective": SideEffect()}),
    ("new class late", {"prediction": FirstFour()}),
    ("labels of any kind", {"objective": ReadsLabels()}),
    ("finite on blank images", {"objective": DividesBySpread()}),
    ("predicts seen classes", {"prediction": OneMore()}),
    ("predict changes nothing", {"prediction": DrawsInTest()}),
    ("predicting leaves no trace", {"objective": Stale()}),
    ("failed step leaves no trace", {"objective": Recounts()}),
    ("further tests leave no trace", {"objective": SeesTests()}),
    ("averaged weights answer", {"prediction": AsksTheLiveWeights()}),
    ("gradients reach the trunk", {"objective": HeadOnly()}),
    ("same seed same bits", {"retrieval": GlobalDraw()}),
    ("resumes to the same bits", {"objective": HiddenState()}),
    ("bounded memory", {"storage": KeepsTwice()}),
]


@pytest.mark.parametrize(("check", "slots"), BROKEN, ids=[f"{c}-{type(*s.values()).__name__}" for c, s in BROKEN])
def test_a_broken_promise_is_caught(check, slots):
    outcome = checks.examine(Subject("broken", er().but(**slots)), check)
    assert outcome.state == "failed"
    assert outcome.detail


def test_a_method_that_does_not_learn_is_caught():
    finetune = registry.resolve("finetune")
    outcome = checks.examine(Subject("finetune", finetune), "learns")
    assert outcome.state == "failed"
    assert "but FINE-TUNE reaches" in outcome.detail


def test_a_wrong_cost_is_caught():
    outcome = checks.examine(Subject("er", er(), cost=1.06), "cost as documented")
    assert outcome.detail == "C_D is 1.000, but documented as 1.06"


def test_the_learner_keeps_its_own_promises(monkeypatch):
    monkeypatch.setattr(Learner, "predict", lambda *_: [])
    assert checks.examine(Subject("er", er()), "predict needs a class").state == "failed"
    monkeypatch.setattr(Learner, "boundary", lambda learner: setattr(learner, "steps", 0))
    assert checks.examine(Subject("er", er()), "boundaries only where declared").state == "failed"


def test_every_check_is_shown_to_fail():
    elsewhere = {"learns", "cost as documented", "predict needs a class", "boundaries only where declared"}
    assert {check for check, _ in BROKEN} | elsewhere == set(checks.CHECKS)


def test_an_exemption_needs_a_reason_and_shows_it():
    outcome = checks.examine(checks.find("finetune"), "learns")
    assert outcome.state == "exempt"
    assert "floor" in outcome.detail


def test_find():
    assert checks.find("evenhand.methods.uer:uer").method == registry.resolve("uer")
    with pytest.raises(errors.InputError, match="'evenhand.methods.uer:eur' cannot be used"):
        checks.find("evenhand.methods.uer:eur")
    with pytest.raises(errors.InputError, match="must return a Method. Got 'Scoring' instead"):
        checks.find("evenhand.methods.uer:unbiased(alpha=1)")
