"""Which modules may be brought: layers in any form and order; what they cannot process, and what they must not be."""

import copy
import pickle

import pytest
import torch
from torch import nn

from core.made import X, Y, classifier, mlp, pictures, small, state
from evenhand import Learner, Network
from evenhand.backbones import MLP
from evenhand.errors import InputError


class Patches(nn.Module):
    """Images cut into patches, each embedded by a Linear: its values are not those of an image."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(48, 8)
        self.dim = 99  # of something else
        self.classify = nn.Linear(8, 2)

    def forward(self, x):
        patches = x.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 1, 4, 5).reshape(len(x), -1, 48)
        return self.classify(self.embed(patches).mean(1))


class LateFirst(nn.Module):
    """The layer that is registered first is not the first to be passed."""

    def __init__(self):
        super().__init__()
        self.middle = nn.Linear(16, 8)
        self.first = nn.Linear(6, 16)
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.middle(self.first(x)))


@pytest.mark.parametrize(("module", "x"), [(Patches(), pictures(side=16)), (LateFirst(), torch.rand(4, 6))])
def test_what_goes_through_is_admitted_however_it_is_built(module, x):
    learner = Learner(module, "er", memory=8, device="cpu")
    learner.observe(x, [0, 1, 2, 3])
    assert len(learner.predict(x)) == 4


@pytest.mark.parametrize(
    ("module", "x", "sentence"),
    [
        (LateFirst(), torch.rand(4, 7), r"cannot process samples of the shape \(7,\): mat1 and mat2"),
        (classifier(), pictures(channels=1), r"cannot process samples of the shape \(1, 8, 8\): .*chan"),
        (
            classifier(),
            pictures(side=9),
            r"\(3, 9, 9\) into features of the shape \(294,\), but its head takes \(216,\)\.",
        ),
        (classifier(), torch.rand(4, 192), r"cannot process samples of the shape \(192,\): Expected"),
        (
            Network.of(nn.Sequential(nn.Linear(6, 16)), dim=8),
            torch.rand(4, 6),
            r"samples of the shape \(6,\) into features of the shape \(16,\), but its head takes \(8,\)\.",
        ),
        (
            nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)),
            pictures(),
            r"into features of the shape \(3, 8, 8\), but its head takes \(8,\)",
        ),
    ],
)
def test_what_does_not_go_through_is_refused_and_leaves_no_trace(module, x, sentence):
    learner = Learner(module, "er", memory=8, device="cpu")
    before = state(learner)
    with pytest.raises(InputError, match=sentence):
        learner.observe(x, [0, 1, 2, 3])
    assert learner.labels == []
    assert state(learner) == before


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
    learners = [small(model=Sparse(sparse), **options) for sparse in (True, False)]
    for learner in learners:
        learner.observe(tokens, Y)
        learner.observe(tokens, Y)
    torch.testing.assert_close(learners[0].scores(tokens), learners[1].scores(tokens))


def test_an_attribute_called_recipe_means_nothing():
    class Own(nn.Sequential):
        recipe = "v1"

    learner = Learner(Own(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), memory=20, device="cpu")
    learner.observe(torch.rand(4, 4), [0, 1, 0, 1])
    assert len(learner.predict(torch.rand(3, 4))) == 3


def test_a_module_that_calls_itself_by_a_closure():
    class Closure(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.drop, self.b = nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 3)
            self.block = lambda x: self.drop(self.a(x))

        def forward(self, x):
            return self.b(self.block(x))

    with pytest.raises(InputError, match="Closure holds a function that refers to the module itself"):
        small(model=Closure()).observe(X, Y)


def test_a_module_that_uses_its_own_parameter_by_a_closure():
    class Closure(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.last = nn.Parameter(torch.ones(4)), nn.Linear(4, 3)
            self.norm = lambda x: x * self.scale

        def forward(self, x):
            return self.last(self.norm(x))

    with pytest.raises(InputError, match="Closure holds a function that refers to the module itself"):
        small(model=Closure()).observe(X, Y)


def test_a_compiled_module():
    in_place = mlp()
    in_place.compile(backend="eager")
    for model in (torch.compile(mlp(), backend="eager"), in_place):
        with pytest.raises(InputError, match=r"This module is compiled\. Pass the original one, with compile=True"):
            small(model=model)


def test_a_compiled_part():
    part = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), backend="eager")
    with pytest.raises(InputError, match=r"The part '0' of this module is compiled\. Pass the original one"):
        small(model=mlp(part))
    with pytest.raises(InputError, match="This module is compiled"):
        Network.of(part, dim=4)


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_method_of_a_module():
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)
            self.begin = torch.compile(self.begin, backend="eager")

        def begin(self, x):
            return self.first(x)

        def forward(self, x):
            return self.last(self.begin(x))

    with pytest.raises(InputError, match="Half holds a function that refers to the module itself"):
        small(model=Half()).observe(X, Y)


def test_copies_made_in_inference_mode_learn(tmp_path):
    learner = small(model=MLP((4,)))
    learner.observe(X, Y)
    learner.save(tmp_path / "state")
    with torch.inference_mode():
        copies = [copy.deepcopy(learner), Learner.load(tmp_path / "state", device="cpu")]
        with pytest.raises(InputError, match=r"unpickled in torch\.inference_mode\(\) cannot learn"):
            pickle.loads(pickle.dumps(learner))
    for each in (learner, *copies):
        each.observe(X, Y)
        assert torch.equal(each.scores(X), learner.scores(X))


def test_a_module_built_in_inference_mode():
    with torch.inference_mode():
        model = mlp()
    with pytest.raises(InputError, match=r"built in torch\.inference_mode\(\), so it cannot learn"):
        small(model=model)
