"""What modules hold beside parameters (buffers, extra state): it is used, rolled back, averaged and saved."""

import pytest
import torch
from torch import nn

from core.made import X, Y, mlp, small
from evenhand import Learner
from evenhand.errors import DivergedError, InputError


class Watchful(nn.Module):
    """Keeps a running mean that `state_dict` leaves out, another that only a pass registers, and a count."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.count = nn.Linear(4, 8), nn.Linear(8, 2), {"passes": 0}
        self.register_buffer("mean", torch.zeros(8), persistent=False)

    def forward(self, x):
        h = self.first(x)
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * h.detach().mean(0)
            self.register_buffer("latest", h.detach().mean(0), persistent=False)
            self.count = {"passes": self.count["passes"] + 1}
        return self.last(torch.relu(h - self.mean))

    def get_extra_state(self):
        return self.count

    def set_extra_state(self, state):
        self.count = state


@pytest.mark.parametrize("method", ["uer", "uer+ema", "ss_il"])
def test_all_that_a_module_holds_is_saved(method, tmp_path, same):
    learner = small(method, model=Watchful())
    for _ in range(3):
        learner.observe(X, Y)
    learner.boundary()
    learner.save(tmp_path / "state")
    back = Learner.load(tmp_path / "state", Watchful(), device="cpu")
    assert torch.equal(back.scores(X), learner.scores(X))
    assert torch.equal(back.network.trunk.latest, learner.network.trunk.latest)
    assert back.network.trunk.count == {"passes": 3}
    for each in (learner, back):
        each.observe(X, Y)
    assert same(learner, back)
    assert torch.equal(back.scores(X), learner.scores(X))


class Queued(nn.Module):
    """Keeps its latest features in a buffer that grows, and their mean in one that is None at first."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)
        self.register_buffer("queue", torch.zeros(0, 8))
        self.register_buffer("mean", None)

    def forward(self, x):
        h = torch.relu(self.first(x))
        if self.training:
            self.queue = torch.cat([self.queue, h.detach()])[-20:]
            self.mean = self.queue.mean(0)
        return self.last(h)


@pytest.mark.parametrize("method", ["uer", "uer+ema", "mir"])
def test_buffers_that_change_their_shape_are_loaded(method, tmp_path, same):
    learner = small(method, model=Queued())
    learner.observe(X, Y)
    learner.save(tmp_path / "state")
    back = Learner.load(tmp_path / "state", Queued(), device="cpu")
    for each in (learner, back):
        each.observe(X, Y)
    assert same(learner, back)
    assert back.network.trunk.queue.shape == learner.network.trunk.queue.shape != (0, 8)


def test_a_module_whose_state_no_file_can_hold(tmp_path):
    model = Watchful()
    model.get_extra_state = lambda: {1, 2}
    learner = small(model=model)
    learner.observe(X, Y)
    with pytest.raises(InputError, match="'trunk._extra_state' must be a tensor, a Network, or a value that JSON"):
        learner.save(tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_a_buffer_that_a_failed_step_registered_is_gone():
    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(4, 2)

        def forward(self, x):
            if "mean" not in self._buffers:
                self.register_buffer("mean", x.detach().mean(0))
            return self.last(x - self.mean)

    learner = small(model=Late())
    with pytest.raises(DivergedError):
        learner.observe(torch.full((6, 4), 3e38) * torch.tensor([1.0, -1, 1, -1]).view(1, 4), Y)
    learner.observe(X, Y)
    assert learner.network.trunk.mean.abs().max() < 10


class Scaled(nn.Module):
    """Keeps its scale as extra state."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.scale = nn.Linear(4, 8), nn.Linear(8, 2), 1.0

    def forward(self, x):
        if self.training:
            self.scale = 0.5 * self.scale + 0.5 * float(x.abs().max())
        return self.last(torch.relu(self.first(x / self.scale)))

    def get_extra_state(self):
        return {"scale": self.scale}

    def set_extra_state(self, state):
        self.scale = state["scale"]


def test_predictions_follow_extra_state_and_a_failed_step_restores_it(tmp_path, monkeypatch):
    learner = Learner(Scaled(), "er", memory=20, replay=4, device="cpu", lr=0.01)
    x = 50 * torch.rand(6, 4)
    for _ in range(5):
        learner.observe(x, [0, 1] * 3)
        learner.predict(x)
    learner.save(tmp_path / "state")
    loaded = Learner.load(tmp_path / "state", Scaled(), device="cpu")
    assert torch.equal(loaded.scores(x), learner.scores(x))
    scale = learner.network.trunk.scale

    def failing(loss):
        assert learner.network.trunk.scale != scale
        raise RuntimeError("after the forward pass")

    monkeypatch.setattr(learner, "descend", failing)
    with pytest.raises(RuntimeError, match="after the forward pass"):
        learner.observe(2 * x, [0, 1] * 3)
    assert learner.network.trunk.scale == scale


class Scale(nn.Module):
    """Multiplies by the number of steps, which is extra state."""

    def __init__(self):
        super().__init__()
        self.steps = 0

    def get_extra_state(self):
        return self.steps

    def set_extra_state(self, steps):
        self.steps = steps

    def forward(self, x):
        self.steps += self.training
        return x * (1 + self.steps)


@pytest.mark.parametrize("method", ["er+ema", "ss_il"])
def test_averages_and_teachers_keep_their_extra_state(method, tmp_path):
    learner = small(method, mlp(Scale()), lr=0.01)
    learner.observe(X, Y)
    learner.boundary()
    for _ in range(3):
        learner.observe(X, [3, 4] * 3)
    learner.save(tmp_path / "state")
    loaded = Learner.load(tmp_path / "state", network=mlp(Scale()))
    assert torch.equal(loaded.scores(X), learner.scores(X))
    assert loaded.observe(X, [3, 4] * 3).replaying == learner.observe(X, [3, 4] * 3).replaying


class Level(nn.Module):
    """Its level is a whole number at first."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 2)
        self.register_buffer("level", torch.tensor(0))

    def forward(self, x):
        if self.training:
            self.level = 0.9 * self.level + 0.1 * x.detach().abs().mean()
        return self.last(x - self.level)


def test_a_buffer_that_changes_its_type(tmp_path, same):
    learner = small(model=Level())
    learner.observe(X, Y)
    learner.save(tmp_path / "state")
    back = Learner.load(tmp_path / "state", Level(), device="cpu")
    assert back.network.trunk.level == learner.network.trunk.level > 0
    assert same(learner, back)
    fresh = small(model=Level())
    fresh.method = fresh.method.but(storage=lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fresh.observe(X, Y)
    assert fresh.network.trunk.level.dtype == torch.int64


@pytest.mark.parametrize("method", ["ss_il", "er_wa(distil=True)"])
def test_a_teacher_from_before_a_buffer_was_set(method, tmp_path, same):
    class Late(Queued):
        def forward(self, x):
            if self.training and len(self.queue):
                self.mean = self.queue.mean(0)
            if self.training:
                self.queue = x.detach()
            return self.last(torch.relu(self.first(x)))

    learner = small(method, model=Late())
    learner.observe(X, Y)
    learner.boundary()
    assert learner.kept[f"{method.partition('(')[0]}.teacher"].trunk.mean is None
    learner.observe(X, [2, 3] * 3)
    assert learner.network.trunk.mean is not None
    learner.save(tmp_path / "state")
    back = Learner.load(tmp_path / "state", Late(), device="cpu")
    for each in (learner, back):
        each.observe(X, [2, 3] * 3)
    assert same(learner, back)
