"""What a second round of careful users ran into: each of these once went wrong."""

import copy
import sys
import types
from enum import IntEnum, StrEnum

import numpy as np
import pytest
import torch
from torch import nn

from evenhand import Learner, losses
from evenhand.core import registry
from evenhand.core.network import DualLinear
from evenhand.errors import InputError, RunError

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
IMAGES = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
Y = [0, 1, 2] * 2


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def made(method="uer", model=None, **options):
    return Learner(model or mlp(), method, **{"memory": 20, "replay": 4, "device": "cpu", **options})


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_numbers_as_labels_stay_what_they_are(kind):
    learner = made()
    learner.observe(X[:3], torch.tensor([0.0, 0.5, 3.0], dtype=kind))
    assert learner.labels == [0, 0.5, 3]


def test_labels_of_full_precision_neither_merge_nor_split():
    learner = made()
    learner.observe(X[:2], torch.tensor([16777216.0, 16777217.0], dtype=torch.float64))
    assert learner.labels == [16777216, 16777217]
    learner.observe(X[:3], [1 / 3, torch.tensor(1 / 3, dtype=torch.float64), np.float32(123456792)])
    assert learner.labels[2:] == [1 / 3, 123456792]


def test_members_of_an_enum_are_their_values(tmp_path):
    class Colour(StrEnum):
        RED = "red"

    class Size(IntEnum):
        BIG = 7

    learner = made()
    learner.observe(X[:2], [Colour.RED, Size.BIG])
    assert [type(label) for label in learner.labels] == [str, int]
    learner.save(tmp_path / "state")
    assert Learner.load(tmp_path / "state", mlp(), device="cpu").labels == ["red", 7] == learner.labels
    for date in (np.array(["2024-01-01", "2024-01-02"], "M8[ns]"), [np.datetime64("2024-01-01", "ns"), 1]):
        with pytest.raises(InputError, match="A label must be a string, a number, a boolean"):
            learner.observe(X[:2], date)


@pytest.mark.parametrize("keep", [5, "cat", (label for label in "abc")])
def test_what_to_keep_is_a_list(keep):
    with pytest.raises(InputError, match="The labels to 'keep' must be a list"):
        made(keep=keep)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.filterwarnings("ignore:This hardware emulates bf16")
def test_an_autocast_around_the_loop_changes_nothing(precision, same):
    around, plain = made(precision=precision), made(precision=precision)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(4):
            around.observe(X, Y)
        assert around.scores(X).dtype == torch.float32
        inside = around.scores(X)
    for _ in range(4):
        plain.observe(X, Y)
    assert same(around, plain)
    assert torch.equal(inside, plain.scores(X))


class Auxiliary(nn.Module):
    """Returns more in training than in evaluation."""

    def __init__(self, first):
        super().__init__()
        self.a, self.b, self.first = nn.Linear(4, 8), nn.Linear(8, 3), first

    def forward(self, x):
        h = torch.relu(self.a(x))
        if not self.training:
            return self.b(h)
        return (self.b(h), h.mean(1)) if self.first else (h * 2, self.b(h))


def test_more_outputs_in_training():
    made(model=Auxiliary(first=True)).observe(X, Y)
    learner, state = made(model=Auxiliary(first=False)), torch.get_rng_state()
    with pytest.raises(InputError, match="In training, Auxiliary returns something else before its logits"):
        learner.observe(X, Y)
    assert torch.equal(torch.get_rng_state(), state)


class Counting(torch.optim.SGD):
    """Counts in its groups, and keeps Python numbers."""

    def step(self, closure=None):
        for group in self.param_groups:
            group["k"] = group.get("k", 0) + 1
            group["lr"] = 0.1 / group["k"]
            for parameter in group["params"]:
                self.state[parameter]["t"] = self.state[parameter].get("t", 1 / 3) * 1.1
        return super().step(closure)


def counting(parameters):
    return Counting(parameters, 0.1)


def test_an_optimizer_that_counts_in_its_groups(tmp_path, same):
    learner, undisturbed = made(optimizer=counting), made(optimizer=counting)
    for each in (learner, undisturbed):
        each.observe(X, Y)
    whole = learner.method
    learner.method = whole.but(storage=lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        learner.observe(X, Y)
    learner.method = whole
    learner.save(tmp_path / "state")
    back = Learner.load(tmp_path / "state", mlp(), optimizer=counting, device="cpu")
    for each in (learner, undisturbed, back):
        each.observe(X, Y)
        assert each.optimizer.param_groups[0]["k"] == 2
        assert isinstance(each.optimizer.state[each.network.head.weight]["t"], float)
    assert same(learner, undisturbed)
    assert same(back, undisturbed)


def test_what_an_optimizer_knows_must_fit_a_file(tmp_path):
    class Odd(torch.optim.SGD):
        def step(self, closure=None):
            self.state[self.param_groups[0]["params"][0]]["seen"] = {1, 2}
            return super().step(closure)

    learner = made(optimizer=lambda parameters: Odd(parameters, 0.1))
    learner.observe(X, Y)
    learner.observe(X, Y)
    with pytest.raises(InputError, match="optimizer/0/seen"):
        learner.save(tmp_path / "state")


@pytest.mark.parametrize("factor", [float("nan"), float("inf"), None, "a", -1])
def test_a_schedule_that_returns_no_factor(factor, same):
    learner, fresh = made(schedule=lambda step: factor), made()
    with pytest.raises(InputError, match="The schedule at step 1 must be"):
        learner.observe(X, Y)
    assert learner.labels == []
    assert torch.equal(learner.network.trunk[0].weight, fresh.network.trunk[0].weight)


def test_an_optimizer_whose_first_group_rests(tmp_path, same):
    def factory(parameters):
        groups = [{"params": parameters[:2], "lr": 0.0}, {"params": parameters[2:]}]
        return torch.optim.SGD(groups, 0.1)

    learner = made(optimizer=factory)
    learner.observe(X, Y)
    learner.save(tmp_path / "state")
    assert same(Learner.load(tmp_path / "state", mlp(), optimizer=factory, device="cpu"), learner)


def test_predictions_before_learning_are_those_of_predict():
    torch.manual_seed(0)
    model = nn.Sequential(nn.utils.spectral_norm(nn.Linear(4, 8)), nn.ReLU(), nn.Linear(8, 3))
    hooked = mlp()
    hooked[0].register_forward_hook(lambda module, _, output: output * (2 if module.training else 1))
    for learner in (made(model=model), made(model=hooked)):
        assert not learner.prequential.free
        learner.observe(X, Y)
        expected = learner.predict(X)
        assert learner.observe(X, Y, predict=True).predicted == expected


def test_a_module_that_calls_itself_by_a_closure():
    class Closure(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.drop, self.b = nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 3)
            self.block = lambda x: self.drop(self.a(x))

        def forward(self, x):
            return self.b(self.block(x))

    with pytest.raises(InputError, match="Closure holds a function that refers to the module itself"):
        made(model=Closure()).observe(X, Y)


def test_a_compiled_module():
    in_place = mlp()
    in_place.compile(backend="eager")
    for model in (torch.compile(mlp(), backend="eager"), in_place):
        with pytest.raises(InputError, match=r"This module is compiled\. Pass the original one, with compile=True"):
            made(model=model)


def test_another_default_type(tmp_path, same):
    model = mlp()
    torch.set_default_dtype(torch.float64)
    try:
        learner = made(model=model)
    finally:
        torch.set_default_dtype(torch.float32)
    assert learner.network.head.weight.dtype == torch.float32
    learner.observe(X, Y)
    learner.save(tmp_path / "state")
    assert same(Learner.load(tmp_path / "state", mlp(), device="cpu"), learner)


class Viewed(nn.Module):
    """Flattens as many tutorials do."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.last = nn.Conv2d(3, 8, 3), nn.Linear(8 * 36, 3)

    def forward(self, x):
        return self.last(torch.relu(self.conv(x)).view(len(x), -1))


class Flattened(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.last = nn.Linear(192, 3)

    def forward(self, x):
        return self.last(x.view(x.size(0), -1))


@pytest.mark.parametrize("model", [Viewed, Flattened])
@pytest.mark.parametrize("method", ["uer", "mir+ema", "gss", "ss_il"])
def test_a_view_of_images(model, method, tmp_path, same):
    learner = made(method, model=model())
    for _ in range(2):
        learner.observe(IMAGES, Y)
    learner.save(tmp_path / "state")
    back = Learner.load(tmp_path / "state", model(), device="cpu")
    for each in (learner, back, copy.deepcopy(back)):
        each.observe(IMAGES, Y)
        assert same(each, learner)
        assert torch.equal(each.scores(IMAGES), learner.scores(IMAGES))


@pytest.mark.parametrize("options", [{}, {"clip": 0.1}, {"optimizer": "sgd(momentum=0.9)"}, {"method": "gss"}])
def test_sparse_gradients(options):
    class Sparse(nn.Module):
        def __init__(self, sparse):
            super().__init__()
            torch.manual_seed(0)
            self.embed, self.last = nn.Embedding(20, 8, sparse=sparse), nn.Linear(8, 3)

        def forward(self, x):
            return self.last(self.embed(x).mean(1))

    tokens = torch.arange(12).view(6, 2)
    learners = [made(model=Sparse(sparse), **options) for sparse in (True, False)]
    for learner in learners:
        learner.observe(tokens, Y)
        learner.observe(tokens, Y)
    torch.testing.assert_close(learners[0].scores(tokens), learners[1].scores(tokens))


@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.spectral_norm, nn.utils.parametrizations.weight_norm])
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_a_copy_of_a_learner_with_normalised_weights(norm, same):
    torch.manual_seed(0)
    learner = made(model=nn.Sequential(norm(nn.Linear(4, 8)), nn.ReLU(), nn.Linear(8, 3)))
    learner.observe(X, Y)
    other = copy.deepcopy(learner)
    for each in (learner, other):
        each.observe(X, Y)
    assert same(learner, other)


def test_a_way_of_ones_own_by_module_and_function(monkeypatch):
    module = types.ModuleType("mine_ways")

    @registry.way
    def flipped(method):
        """Any method, tested by cosines."""
        return method.but(scoring=method.scoring.__class__(method.scoring.learn, method.scoring.replay, "cos"))

    module.flipped = flipped
    monkeypatch.setitem(sys.modules, "mine_ways", module)
    try:
        learner = made("uer+mine_ways:flipped")
        assert learner.method.scoring.test == "cos"
    finally:
        registry._recipes.pop("flipped")


def test_a_module_is_free_again_after_a_failed_load(tmp_path):
    made().save(tmp_path / "empty")
    wide = made(model=nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 3)))
    wide.observe(X, Y)
    wide.save(tmp_path / "wide")
    model = mlp()
    with pytest.raises((InputError, RunError), match="do not fit this network"):
        Learner.load(tmp_path / "wide", model, device="cpu")
    assert isinstance(model[2], nn.Linear)
    Learner.load(tmp_path / "empty", model, device="cpu").observe(X, Y)


def test_tests_are_asked_for_in_any_spelling():
    learner = made(tests="ncm+ema(decay=0.998)")
    learner.observe(X, Y)
    expected = learner.scores(X, test="ema+ncm")
    for spelling in ("ncm+ema", "ema(decay=0.998, by_row=True)+ncm", "ncm + ema"):
        assert torch.equal(learner.scores(X, test=spelling), expected)
    for wrong in ("ema", "cos", "nothing", ["ema"]):
        with pytest.raises(InputError):
            learner.predict(X, test=wrong)
    with pytest.raises(InputError, match="This learner has no test 'ema'. Name it when making one"):
        made().scores(X, test="ema")


def test_the_forms_of_a_dual_layer():
    head = DualLinear(4, rows=3)
    with pytest.raises(InputError, match="The form of logits must be dot or cos"):
        head(X, "dott")
    h = torch.randn(2, 5, 4)
    torch.testing.assert_close(head(h, "cos"), head(h.flatten(0, 1), "cos").unflatten(0, (2, 5)))
    with pytest.raises(InputError, match="must be a DualLinear"):
        losses.uer(nn.Linear(4, 3), (X, torch.tensor(Y)))
    y = torch.tensor(Y)
    assert torch.equal(losses.uer(head, (X, y.int())), losses.uer(head, (X, y)))


def test_an_exported_module_takes_what_predict_takes():
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
    learner = made(model=model)
    bytes = (IMAGES * 255).to(torch.uint8)
    learner.observe(bytes, Y)
    with pytest.raises(InputError, match="must be uint8"):
        learner.module()(bytes.float() / 255)

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(4, 3)

        def forward(self, values):
            return self.last(values)

    learner = made(model=Named())
    learner.observe({"values": X.double()}, Y)
    torch.testing.assert_close(learner.module()(values=X.double()), learner.scores({"values": X}))


def test_an_output_that_is_not_the_heads():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.last = nn.Linear(4, 8), nn.Linear(8, 3)

        def forward(self, x):
            return {"hidden": self.a(x), "logits": self.last(self.a(x))}

    with pytest.raises(InputError, match="The output 'hidden' of Two is not what its layer 'last' passes on"):
        made(model=Two(), output="hidden").observe(X, Y)
    made(model=Two(), output="logits").observe(X, Y)
