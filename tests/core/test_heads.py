"""Which layer the head replaces, what is left of the one that was there, and which output has the logits."""

from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from core.made import small
from evenhand import Learner, Network
from evenhand.errors import InputError

X = torch.rand(8, 4, generator=torch.Generator().manual_seed(0))
Y = [0, 1] * 4


class Two(nn.Module):
    """`last` is registered last; `forward` may end as it likes."""

    def __init__(self, end=lambda model, h: model.last(h)):
        super().__init__()
        self.classify = nn.Linear(6, 3)
        self.first = nn.Linear(4, 6)
        self.last = nn.Linear(6, 3)
        self.end = end

    def forward(self, x):
        return self.end(self, torch.relu(self.first(x)))


ENDS = {
    "log_softmax": (
        lambda model, h: F.log_softmax(model.last(h), 1),
        "does not return what its layer 'last' passes on",
    ),
    "relu": (
        lambda model, h: torch.relu(model.last(h)),
        "does not return what its layer 'last' passes on.*remove that",
    ),
    "unused": (lambda model, h: model.classify(h), r"does not use its layer 'last'.*Learner\(model, head='\.\.\.'\)"),
}


class Narrowing(nn.Module):
    """The layer registered last is not the one that classifies, and has another width."""

    def __init__(self):
        super().__init__()
        self.classify, self.first = nn.Linear(6, 2), nn.Linear(4, 6)

    def forward(self, x):
        return self.classify(torch.relu(self.first(x)))


class Reading(Narrowing):
    """Reads the weight of its last layer."""

    def forward(self, x):
        return self.classify(torch.relu(F.linear(x, self.first.weight)))


@pytest.mark.parametrize("model", [Narrowing, Reading])
def test_a_model_that_cannot_run_without_its_last_layer_gets_it_back(model):
    made = model()
    with pytest.raises(InputError, match=rf"{model.__name__} needs its layer 'first', .* head='\.\.\.'\)"):
        small(model=made).observe(X, Y)
    learner = small(model=made, head="classify")
    learner.observe(X, Y)
    assert isinstance(made.first, nn.Linear)
    with pytest.raises(InputError, match="have the shape"):
        learner.observe(X[:, :3], Y)  # samples that do not fit are no fault of the head


@pytest.mark.parametrize("end", ENDS)
def test_a_model_that_does_not_end_in_the_replaced_layer_says_so(end):
    model = Two(ENDS[end][0])
    names = [name for name, _ in model.named_parameters()]
    learner = Learner(model, memory=8, device="cpu")
    with pytest.raises(InputError, match=ENDS[end][1]):
        learner.observe(X, [0] * 8)
    assert learner.labels == []
    assert [name for name, _ in model.named_parameters()] == names  # the module is whole again
    if end == "unused":
        learner = Learner(model, head="classify", memory=8, device="cpu")
        learner.observe(X, Y)
        assert isinstance(model.last, nn.Linear)


@pytest.mark.parametrize(
    "end",
    [
        lambda model, h: (model.last(h), h),
        lambda model, h: {"loss": None, "logits": model.last(h), "hidden": h},
        lambda model, h: [h, model.last(h)],
    ],
)
def test_models_that_return_more_than_logits(end, tmp_path):
    torch.manual_seed(0)
    rich = Learner(Two(end), memory=8, device="cpu")
    torch.manual_seed(0)
    plain = Learner(Two(), memory=8, device="cpu")
    for learner in (rich, plain):
        for _ in range(3):
            learner.observe(X, Y)
    assert torch.equal(rich.scores(X), plain.scores(X))
    rich.save(tmp_path / "rich")
    assert torch.equal(Learner.load(tmp_path / "rich", Two(end), device="cpu").scores(X), plain.scores(X))


def test_an_output_that_is_not_there():
    learner = Learner(Two(lambda model, h: {"logits": model.last(h)}), output="logit", device="cpu")
    with pytest.raises(InputError, match="There is no output of this Two called 'logit'. Did you mean logits"):
        learner.observe(X, [0] * 8)


def test_an_output_of_a_model_that_returns_one_tensor():
    learner = Learner(Two(), output="logits", device="cpu")
    with pytest.raises(InputError, match=r"^Two returns one tensor, not several by name or number\. Leave out output="):
        learner.observe(X, [0] * 8)


def test_a_head_over_a_sequence_of_which_one_place_is_returned():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.score = nn.Embedding(9, 5), nn.Linear(5, 2)

        def forward(self, tokens):
            return self.score(self.embed(tokens).cumsum(1))[:, -1]

    learner = Learner(Last(), memory=8, device="cpu")
    tokens = torch.randint(9, (6, 7))
    learner.observe(tokens, list("abcabc"))
    assert learner.scores(tokens).shape == (6, 3)


def test_a_linear_alone_learns():
    learner = Learner(nn.Linear(4, 2), "er", memory=20, lr=0.5, device="cpu")
    for _ in range(60):
        learner.observe(torch.eye(4), ["a", "b", "c", "d"])
    assert learner.predict(torch.eye(4)) == ["a", "b", "c", "d"]


def test_the_rows_of_a_trained_classifier_are_kept(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    logits = model(X).detach()
    learner = Learner(model, "er", keep=["cat", "dog"], memory=8, device="cpu")
    assert learner.labels == ["cat", "dog"]
    assert torch.allclose(learner.scores(X), logits, atol=1e-6)  # before anything is learned
    record = learner.observe(X, ["dog", "emu"] * 4)
    assert record.new == ["emu"]
    assert learner.labels == ["cat", "dog", "emu"]
    learner.save(tmp_path / "saved")
    fresh = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    assert torch.equal(Learner.load(tmp_path / "saved", fresh, device="cpu").scores(X), learner.scores(X))


class Further(nn.Module):
    """Takes two inputs, and returns its logits after features of the same shape."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, left, right):
        h = torch.relu(self.first(left + right))
        return {"features": h, "logits": self.last(torch.tanh(self.second(h)))}


@pytest.mark.parametrize("named", [True, False])
def test_a_trained_classifier_of_any_form_answers_before_it_learns(named):
    torch.manual_seed(0)
    model = Further()
    logits = model(X, X)["logits"].detach()
    expected = [("cat", "dog")[row] for row in logits.argmax(1).tolist()]
    x = {"left": X, "right": X} if named else (X, X)
    learner = Learner(model, "er", keep=["cat", "dog"], memory=8, tests="ema", device="cpu")
    for test in ("", "ema"):
        assert torch.allclose(learner.scores(x, test=test), logits, atol=1e-6)
    assert learner.kind is None
    assert learner.observe(x, ["dog", "emu"] * 4, predict=True).predicted == expected


@pytest.mark.parametrize("keep", [["cat"], ["cat", "cat"], ["cat", "dog", "emu"]])
def test_labels_that_do_not_name_the_rows(keep):
    with pytest.raises(InputError, match=r"The labels to 'keep' must name each row of the layer .* \(2\)"):
        Learner(nn.Sequential(nn.Linear(4, 2)), keep=keep, device="cpu")


def test_a_head_that_is_not_there_names_those_there_are():
    with pytest.raises(InputError, match=r"There is no Linear in this Two called 'lst'\. Did you mean last"):
        Learner(Two(), head="lst", device="cpu")


def test_a_layer_without_a_shape():
    with pytest.raises(InputError, match="have no shape yet. Call the module once"):
        Network.of(nn.Sequential(nn.Flatten(), nn.LazyLinear(3)))


def test_a_layer_with_two_names_and_a_parametrized_one():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleDict({"main": nn.Linear(4, 2)})
            self.fc = self.heads["main"]

        def forward(self, x):
            return self.heads["main"](x)

    small(model=Twice()).observe(X, Y)
    normed = nn.Sequential(nn.Linear(4, 8), nn.utils.parametrizations.weight_norm(nn.Linear(8, 2)))
    small(model=normed).observe(X, Y)
    small(model=nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Flatten()), head="1").observe(X, Y)


class Ends(nn.Module):
    """As wide at its end as before it."""

    def __init__(self, end):
        super().__init__()
        self.first, self.last, self.end = nn.Linear(4, 8), nn.Linear(8, 8), end

    def forward(self, x):
        return self.end(self.last(self.first(x)))


@pytest.mark.parametrize("end", [lambda z: z.log_softmax(1), lambda z: z.sigmoid_(), lambda z: z.div_(2)])
def test_a_refused_model_stays_refused(end):
    learner = small(model=Ends(end))
    for _ in range(2):
        with pytest.raises(InputError, match="does not return what its layer 'last' passes on"):
            learner.observe(X, Y)
    kept = small(model=Ends(end), keep=list(range(8)))
    for _ in range(2):
        with pytest.raises(InputError, match="does not return what its layer 'last' passes on"):
            kept.predict(X)


Named = namedtuple("Named", ["hidden", "logits"])


@dataclass
class Output:
    hidden: torch.Tensor
    logits: torch.Tensor


@pytest.mark.parametrize("wrap", [Named, Output])
def test_outputs_with_names(wrap):
    learner = small(model=Two(lambda model, h: wrap(h, model.last(h))), output="logits")
    learner.observe(X, Y)
    assert learner.scores(X).shape == (8, 2)


def in_training(end):
    """An end for `Two` in training; in evaluation it returns its logits alone."""
    return lambda model, h: end(model, h) if model.training else model.last(h)


def test_more_is_returned_in_training_than_in_evaluation():
    learner = small(model=Two(in_training(lambda model, h: (model.last(h), h))))
    learner.observe(X, Y)
    learner.observe(X, Y)
    assert len(learner.predict(X)) == 8


def test_more_outputs_in_training():
    small(model=Two(in_training(lambda model, h: (model.last(h), h.mean(1))))).observe(X, Y)
    learner, state = small(model=Two(in_training(lambda model, h: (h * 2, model.last(h))))), torch.get_rng_state()
    with pytest.raises(InputError, match="In training, Two returns something else before its logits"):
        learner.observe(X, Y)
    assert torch.equal(torch.get_rng_state(), state)


def test_an_output_that_is_not_the_heads():
    def end(model, h):
        return {"hidden": 2 * h, "logits": model.last(h)}

    model = Two(end)
    with pytest.raises(InputError, match="The output 'hidden' of Two is not what its layer 'last' passes on"):
        small(model=model, output="hidden").observe(X, Y)
    with pytest.raises(InputError, match="no output of this Two called 'logit'. Did you mean logits?"):
        small(model=model, output="logit").observe(X, Y)
    small(model=model, output="logits").observe(X, Y)


def test_rows_of_a_layer_that_computes_more_are_not_kept():
    class Scaled(nn.Linear):
        def forward(self, x):
            return 3 * super().forward(x)

    with pytest.raises(InputError, match="The labels to 'keep' must be left out, since Scaled computes more than"):
        small(model=nn.Sequential(nn.Linear(4, 8), Scaled(8, 2)), keep=["a", "b"])


@pytest.mark.parametrize("keep", [5, "cat", (label for label in "abc")])
def test_what_to_keep_is_a_list(keep):
    with pytest.raises(InputError, match="The labels to 'keep' must be a list"):
        small(keep=keep)
