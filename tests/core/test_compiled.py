"""A compiled trunk learns what the plain one learns, by itself to the bit, and goes on where it was."""

import pytest
import torch
from torch import nn

from evenhand import Learner
from evenhand.backbones import MLP, ReducedResNet18, SmallCNN
from evenhand.core.compiled import worth
from evenhand.errors import InputError


@pytest.fixture(autouse=True)
def kernels(tmp_path_factory, monkeypatch):
    """Keep the compiled kernels of these tests together, and out of the user's cache."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "kernels"))


def learner(compile, name="uer", views="none"):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        trunk = SmallCNN((3, 8, 8), width=4)
    augment = "none" if views == "none" else "scr"
    return Learner(
        trunk, name, memory=20, replay=4, lr=0.05, compile=compile, augment=augment, views=views, device="cpu"
    )


def batches(count):
    drawn = torch.Generator().manual_seed(3)
    for _ in range(count):
        yield torch.randint(256, (4, 3, 8, 8), generator=drawn).to(torch.uint8), torch.randint(5, (4,), generator=drawn)


def learn(one, given):
    for x, y in given:
        one.observe(x, y)
    return one


def weights(one):
    return torch.cat([parameter.detach().flatten() for parameter in one.network.parameters()])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["uer", "mir+uer", "derpp"])
def test_compiled_is_plain_up_to_rounding_and_itself_to_the_bit(name, tmp_path):
    plain, one, two = (learn(learner(compile, name), batches(16)) for compile in (False, True, True))
    assert torch.allclose(weights(plain), weights(one), atol=1e-4)
    assert torch.equal(weights(one), weights(two))
    half = learn(learner(True, name), list(batches(16))[:9])
    half.save(tmp_path / "half")
    again = Learner.load(tmp_path / "half", compile=True, device="cpu")
    assert torch.equal(weights(learn(again, list(batches(16))[9:])), weights(one))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_one_graph_serves_a_stream_with_its_views():
    torch.compiler.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("inductor")
    one = learner(True, views="concat")
    one.compiled._run = torch.compile(one.network.trunk, dynamic=False, backend=counter)
    learn(one, batches(20))
    assert counter.frame_count == 1


def test_compiling_pays_for_long_runs_of_convolutions_where_there_is_a_compiler(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert worth(ReducedResNet18((3, 32, 32)), 5000)
    assert not worth(ReducedResNet18((3, 32, 32)), 100)
    assert not worth(MLP((4,)), 5000)
    assert not worth(nn.Linear(3, 2), 5000)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert not worth(ReducedResNet18((3, 32, 32)), 5000)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert not worth(ReducedResNet18((3, 32, 32)), 5000)


class Sum(nn.Module):
    """Takes two inputs."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, left, right):
        return self.last(torch.relu(self.first(left + right)))


@pytest.mark.parametrize("named", [True, False])
def test_a_compiled_trunk_takes_several_inputs(named, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda trunk, **options: trunk)
    x = torch.rand(10, 4, generator=torch.Generator().manual_seed(0))
    made = Learner(Sum(), "er", memory=10, compile=True, device="cpu")
    for _ in range(3):
        made.observe({"left": x, "right": x} if named else (x, x), [0, 1] * 5)
    assert made.steps == 3


def test_compile_is_true_or_false():
    with pytest.raises(InputError, match="The 'compile' of a learner must be True or False. Got 'on' instead"):
        learner("on")
