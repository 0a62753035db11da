"""A learner's network as a plain module, and through torch.export."""

import pytest
import torch
from torch import nn

from core.made import X, Y
from evenhand import Learner, Network
from evenhand.backbones import SmallCNN
from evenhand.errors import InputError


def bytes_(count=12):
    return torch.randint(0, 256, (count, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def trained(method="uer", neck=False, rows=0, **options):
    torch.manual_seed(0)
    network = Network.of(SmallCNN((1, 8, 8), width=4), neck=neck)
    learner = Learner(network, method, memory=12, rows=rows, tests="ema", device="cpu", **options)
    for _ in range(5):
        learner.observe(bytes_(), list("abcabcabcabc"))
    return learner


@pytest.mark.parametrize("method", ["uer", "lucir", "er_wa", "scr+uer"])
@pytest.mark.parametrize("test", ["", "ema"])
@pytest.mark.parametrize("rows", [0, 9])
def test_the_module_answers_as_the_learner_does(method, test, rows):
    learner = trained(method, rows=rows)
    module = learner.module(test=test)
    assert module.labels == ["a", "b", "c"]
    assert torch.allclose(module(bytes_()), learner.scores(bytes_(), test=test), atol=1e-5)
    assert not module.training
    before = module(bytes_())
    learner.observe(bytes_(), list("abcdefabcdef"))
    assert torch.equal(module(bytes_()), before)  # it does not follow


def test_a_neck_that_is_coupled():
    learner = trained("uer(couple='both')", neck=True)
    assert torch.allclose(learner.module()(bytes_()), learner.scores(bytes_()), atol=1e-5)


@pytest.mark.parametrize("method", ["uer", "lucir"])
def test_it_goes_through_torch_export(method):
    learner = trained(method)
    program = torch.export.export(
        learner.module(), (bytes_(2),), dynamic_shapes={"inputs": ({0: torch.export.Dim.AUTO},)}
    )
    assert torch.allclose(program.module()(bytes_()), learner.scores(bytes_()), atol=1e-5)


def test_several_inputs_are_passed_to_it_by_name():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.last = nn.Linear(3, 4), nn.Linear(4, 2)

        def forward(self, left, right):
            return {"logits": self.last(torch.relu(self.layer(left) - self.layer(right)))}

    learner = Learner(Pair(), memory=8, device="cpu")
    x = {"left": torch.rand(6, 3), "right": torch.rand(6, 3)}
    learner.observe(x, list("abcabc"))
    assert torch.allclose(learner.module()(**x), learner.scores(x), atol=1e-6)


@pytest.mark.parametrize("method", ["scr", "er_wa(persist=False)"])
def test_what_is_no_layer_has_no_module(method):
    with pytest.raises(InputError, match="is not a layer of the network, so it has no module"):
        trained(method).module()


def test_there_is_no_module_of_nothing():
    with pytest.raises(InputError, match="has seen no samples yet"):
        Learner(SmallCNN((1, 8, 8)), device="cpu").module()
    with pytest.raises(InputError, match="no test of this learner called 'ncm'"):
        trained().module(test="ncm")


def test_an_exported_module_takes_what_predict_takes():
    learner = trained()
    with pytest.raises(InputError, match="must be uint8"):
        learner.module()(bytes_().float() / 255)

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(4, 3)

        def forward(self, values):
            return self.last(values)

    learner = Learner(Named(), memory=20, device="cpu")
    learner.observe({"values": X.double()}, Y)
    torch.testing.assert_close(learner.module()(values=X.double()), learner.scores({"values": X}))


@pytest.mark.parametrize("upcast", [False, True])
def test_a_trunk_in_half_precision(upcast):
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x):
            logits = self.last(self.first(x.bfloat16()).relu())
            return logits.float() if upcast else logits  # as Hugging Face models do

    learner = Learner(Half().bfloat16(), memory=12, device="cpu")
    learner.observe(X, Y)
    assert torch.equal(learner.module()(X), learner.scores(X))
