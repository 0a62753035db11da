"""What careful users have run into: each of these once went wrong."""

import copy
import pickle
import threading
import time
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from evenhand import Learner, losses
from evenhand.backbones import MLP
from evenhand.core.network import DualLinear, Network
from evenhand.errors import DivergedError, InputError, RunError

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
Y = [0, 1] * 3


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def made(method="uer", model=None, **options):
    return Learner(model or mlp(), method, **{"memory": 20, "replay": 4, "device": "cpu", **options})


class Pair(nn.Module):
    """Takes ids and a mask of another type."""

    def __init__(self):
        super().__init__()
        self.embed, self.last = nn.Embedding(10, 4), nn.Linear(4, 2)

    def forward(self, ids, mask=None):
        h = self.embed(ids)
        return self.last(h.mean(1) if mask is None else (h * mask.unsqueeze(2)).mean(1))


@pytest.mark.parametrize("kind", [torch.bool, torch.float32, torch.uint8, torch.int64])
@pytest.mark.parametrize("length", [1, 3, 5])
def test_columns_of_any_width_and_order(kind, length):
    ids, mask = torch.randint(10, (4, length)), torch.ones(4, length, dtype=kind)
    for x in ({"ids": ids, "mask": mask}, {"mask": mask, "ids": ids}):
        learner = made(model=Pair())
        learner.observe(x, list("abab"))
        learner.observe({"ids": ids, "mask": mask}, list("abab"))  # names are keywords, in any order
        stored = learner.memory.samples()[0]
        assert torch.equal(stored["ids"][:4], ids)
        assert stored["mask"].dtype == kind


def test_predictions_within_inference_mode(same):
    asked, calm = made(), made()
    for _ in range(3):
        with torch.inference_mode():
            asked.predict(X) if asked.labels else None
        for learner in (asked, calm):
            learner.observe(X, Y)
            learner.predict(X)
    model = mlp()
    with torch.inference_mode():
        asked.boundary()
        asked.remember(X.clone(), Y)
        asked.forget(label=0)
        inside = made(model=model)
        inside.observe(X.clone(), Y)
    for learner in (asked, inside):
        learner.observe(X, Y)
        learner.predict(X)


def test_an_interrupted_copy_is_not_taken_for_a_state(monkeypatch):
    learner, calm = made(), made()
    for _ in range(3):
        for each in (learner, calm):
            each.predict(X) if each.labels else None
            each.observe(X, Y)
    with monkeypatch.context() as patched:
        patched.setattr(torch, "_foreach_copy_", lambda *arguments: interrupt())
        with pytest.raises(KeyboardInterrupt):
            learner.predict(X)
    assert torch.equal(learner.scores(X), calm.scores(X))
    hook = learner.network.trunk[0].register_forward_hook(lambda *arguments: interrupt())
    with monkeypatch.context() as patched:
        patched.setattr(torch, "_foreach_copy_", lambda *arguments: interrupt())
        with pytest.raises(KeyboardInterrupt):
            learner.observe(X, [0, 5] * 3)
    with pytest.raises(KeyboardInterrupt):
        learner.observe(X, [0, 5] * 3)
    hook.remove()
    assert torch.equal(learner.scores(X), calm.scores(X))
    assert (learner.steps, learner.labels) == (calm.steps, calm.labels)


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_head_that_failed_to_grow_still_learns(optimizer, same):
    learner, calm = made("obc", optimizer=optimizer, lr=0.01), made("obc", optimizer=optimizer, lr=0.01)
    learner.observe(X, Y), calm.observe(X, Y)
    second = next(iter(learner.network.extra.values()))
    second.grow = lambda *arguments: interrupt()
    with pytest.raises(KeyboardInterrupt):
        learner.observe(X, [0, 2] * 3)
    del second.grow
    for _ in range(3):
        learner.observe(X, [0, 2] * 3), calm.observe(X, [0, 2] * 3)
    assert same(learner, calm)


class Ends(nn.Module):
    """As wide at its end as before it."""

    def __init__(self, end):
        super().__init__()
        self.first, self.last, self.end = nn.Linear(4, 8), nn.Linear(8, 8), end

    def forward(self, x):
        return self.end(self.last(self.first(x)))


@pytest.mark.parametrize("end", [lambda z: z.log_softmax(1), lambda z: z.sigmoid_(), lambda z: z.div_(2)])
def test_a_refused_model_stays_refused(end):
    learner = made(model=Ends(end))
    for _ in range(2):
        with pytest.raises(InputError, match="does not return what its layer 'last' passes on"):
            learner.observe(X, Y)
    kept = made(model=Ends(end), keep=list(range(8)))
    for _ in range(2):
        with pytest.raises(InputError, match="does not return what its layer 'last' passes on"):
            kept.predict(X)


def test_an_augmentation_of_packed_samples_is_refused():
    learner = made(model=Pair(), augment=lambda x: x + 1)
    with pytest.raises(InputError, match="Only samples of a single tensor can be augmented"):
        learner.observe({"ids": torch.ones(4, 3).long()}, Y[:4])


@pytest.mark.parametrize("method", ["obc", "er", "uer"])
def test_what_a_step_tells_beforehand_is_what_predict_says(method):
    testing, asked = made(method), made(method)
    for seed in range(8):
        x = torch.randn(6, 4, generator=torch.Generator().manual_seed(seed))
        expected = asked.predict(x) if asked.labels else [None] * 6
        asked.observe(x, Y)
        assert testing.observe(x, Y, predict=True).predicted == expected


def test_a_slow_prediction_leaves_nothing_that_grows():
    learner = made(memory=50)
    learner.observe(X, Y)
    with learner.snapshots.asked(learner):
        learner.observe(X, Y)
        learner.observe(X, Y)
    for _ in range(100):
        learner.observe(X, Y)
    watching = [snapshot.memory for snapshot in learner.snapshots.pool if snapshot.memory is not None]
    assert len(watching) == 1
    assert len(watching[0].replaced) < 10


def test_an_optimizer_must_take_the_head():
    model = mlp()
    with pytest.raises(InputError, match="must take all parameters that it is given"):
        made(model=model, optimizer=lambda parameters: torch.optim.SGD(model.parameters(), 0.1))
    made(model=model).observe(X, Y)  # the module is whole


def test_a_backbone_belongs_to_one_learner():
    trunk = MLP((4,))
    first = made(model=trunk)
    with pytest.raises(InputError, match="This MLP already belongs to a learner"):
        made(model=trunk)
    first.observe(X, Y)


@pytest.mark.parametrize("options", [{"keep": ["a"]}, {"clip": -1}, {"optimizer": lambda parameters: 1 / 0}])
def test_a_constructor_that_fails_leaves_the_module_whole(options):
    model = mlp()
    with pytest.raises((InputError, ZeroDivisionError)):
        made(model=model, **options)
    made(model=model, keep=["a", "b"]).observe(X, ["a", "c"] * 3)


def test_a_first_batch_that_fails_decides_nothing():
    learner = made(model=Pair())
    ids = torch.randint(10, (4, 3))
    with pytest.raises(InputError):
        learner.observe((ids, torch.ones(4, 3)), [1])
    learner.observe(ids, Y[:4])
    assert len(learner.predict(ids)) == 4


def test_what_is_asked_first_decides_nothing():
    learner = made(model=Pair(), keep=["a", "b"])
    ids, mask = torch.randint(10, (4, 3)), torch.ones(4, 3)
    learner.predict(ids)
    learner.observe({"ids": ids, "mask": mask}, list("abab"))
    assert len(learner.predict({"ids": ids, "mask": mask})) == 4


def test_a_state_with_other_labels_is_refused(same):
    one, other, calm = made(), made(), made()
    one.observe(X, list("pqpqpq"))
    for each in (other, calm):
        each.observe(X, list("qpqpqp"))
    with pytest.raises(InputError, match="other labels, or in another order. Load the state into a new one"):
        other.load_state_dict(one.state_dict(), one.facts())
    assert same(other, calm)


def test_a_buffer_that_a_failed_step_registered_is_gone():
    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(4, 2)

        def forward(self, x):
            if "mean" not in self._buffers:
                self.register_buffer("mean", x.detach().mean(0))
            return self.last(x - self.mean)

    learner = made(model=Late())
    with pytest.raises(DivergedError):
        learner.observe(torch.full((6, 4), 3e38) * torch.tensor([1.0, -1, 1, -1]).view(1, 4), Y)
    learner.observe(X, Y)
    assert learner.network.trunk.mean.abs().max() < 10


def test_saving_within_a_step_is_refused(tmp_path):
    learner = made()
    learner.observe(X, Y)
    saving = made(augment=lambda x: saving.save(tmp_path / "half") or x)
    with pytest.raises(RunError, match="A step is under way"):
        saving.observe(X, Y)
    assert not (tmp_path / "half").exists()


@pytest.mark.parametrize("method", ["gss", "obc", "derpp", "aser", "scr", "gmed"])
def test_remembering_needs_no_mode_and_no_method(method, same):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    disturbed, calm = (made(method, model=copy.deepcopy(model)) for _ in range(2))
    x = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    disturbed.network.eval()
    for learner in (disturbed, calm):
        learner.remember(x, Y)
        learner.remember(x, Y)
        learner.observe(x, Y)
    assert same(disturbed, calm)


def test_an_average_follows_buffers_that_are_assigned_anew():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(4, 2)
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            if self.training:
                self.count = self.count + 1
            return self.last(x)

    learner = made("uer+ema", model=Counting())
    for _ in range(30):
        learner.observe(X, Y)
    average = learner.method.weights(learner)
    assert 15 < average.trunk.count.item() < 30


def test_layers_that_were_thawed_stay_thawed(tmp_path):
    def frozen():
        model = mlp()
        model[0].requires_grad_(False)
        return model

    learner = made(model=frozen())
    learner.observe(X, Y)
    learner.network.trunk[0].requires_grad_(True)
    learner.save(tmp_path / "thawed")
    back = Learner.load(tmp_path / "thawed", frozen(), device="cpu")
    assert back.network.trunk[0].weight.requires_grad


@pytest.mark.parametrize("name", ["Adafactor", "Rprop", "Adagrad", "NAdam", "ASGD"])
def test_other_optimizers_of_torch_grow_with_the_head(name, tmp_path, same):
    def factory(parameters):
        return getattr(torch.optim, name)(parameters, lr=0.01)

    learner = made(optimizer=factory)
    learner.observe(X, Y)
    learner.observe(X, [2, 3] * 3)
    learner.save(tmp_path / "state")
    back = Learner.load(tmp_path / "state", mlp(), optimizer=factory, device="cpu")
    for each in (learner, back):
        each.observe(X, [4, 0] * 3)
    assert same(learner, back)


def test_options_that_a_file_has_already(tmp_path):
    learner = made(optimizer="sgd(momentum=0.9)")
    learner.observe(X, Y)
    learner.save(tmp_path / "state")
    sentence = r"was saved with optimizer='sgd\(momentum=0\.9\)', which cannot be changed\. Leave out optimizer="
    with pytest.raises(InputError, match=sentence):
        Learner.load(tmp_path / "state", mlp(), optimizer="adam", device="cpu")
    with pytest.raises(InputError, match="LBFGS"):
        made(optimizer=lambda parameters: torch.optim.LBFGS(parameters))


def test_a_named_schedule_can_be_pickled(same):
    learner = made(schedule="warmup(steps=3)+cosine(steps=9)")
    learner.observe(X, Y)
    for other in (pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner)):
        other.observe(X, Y)
        assert other.optimizer.param_groups[0]["lr"] != 0.1


Named = namedtuple("Named", ["hidden", "logits"])


@dataclass
class Output:
    hidden: torch.Tensor
    logits: torch.Tensor


@pytest.mark.parametrize("wrap", [Named, Output])
def test_outputs_with_names(wrap):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x):
            h = self.first(x)
            return wrap(h, self.last(h))

    learner = made(model=Model(), output="logits")
    learner.observe(X, Y)
    assert learner.scores(X).shape == (6, 2)


def test_more_is_returned_in_training_than_in_evaluation():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x):
            h = self.first(x)
            return (self.last(h), h) if self.training else self.last(h)

    learner = made(model=Model())
    learner.observe(X, Y)
    learner.observe(X, Y)
    assert len(learner.predict(X)) == 6


def test_a_layer_with_two_names_and_a_parametrized_one():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleDict({"main": nn.Linear(4, 2)})
            self.fc = self.heads["main"]

        def forward(self, x):
            return self.heads["main"](x)

    made(model=Twice()).observe(X, Y)
    normed = nn.Sequential(nn.Linear(4, 8), nn.utils.parametrizations.weight_norm(nn.Linear(8, 2)))
    made(model=normed).observe(X, Y)
    made(model=nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Flatten()), head="1").observe(X, Y)


@pytest.mark.parametrize(
    "y", [[[0], [1]] * 3, [[0, 1], [1, 0]] * 3, [torch.tensor([0])] * 6, torch.zeros(6, 1, 1), b"ababab"]
)
def test_columns_of_labels_in_any_form(y):
    learner = made()
    with pytest.raises(InputError, match="label"):
        learner.observe(X, y)
    assert learner.labels == []


def test_a_fraction_is_one_label_in_any_precision():
    learner = made()
    learner.observe(X, [0.1, np.float32(0.1), torch.tensor(0.1), np.float64(0.1), np.float16(0.1), 0.5])
    learner.observe(X[:2], np.array([0.1, 0.5], dtype=np.float32))
    learner.observe(X[:2], torch.tensor([0.1, 0.5]))
    assert learner.labels == [0.1, 0.5]


def test_a_forward_that_writes_to_its_input_writes_to_a_copy():
    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(4, 2)

        def forward(self, x):
            x -= 0.5
            return self.last(x)

    learner, x = made(model=Writes()), X.clone()
    learner.observe(x, Y, predict=True)
    learner.predict(x)
    assert torch.equal(x, X)
    assert torch.equal(learner.memory.samples()[0], X)


@pytest.mark.parametrize(("mode", "channels"), [("P", 3), ("1", 1), ("L", 1), ("RGBA", 4)])
def test_images_of_every_mode(mode, channels):
    images = [Image.new("RGB", (3, 2), colour).convert(mode) for colour in ("red", "white")]
    learner = made(model=nn.Sequential(nn.Flatten(), nn.Linear(6 * channels, 2)))
    learner.observe(images, Y[:2])
    x, _ = learner.memory.samples()
    assert x.dtype == torch.uint8
    assert x.shape == (2, channels, 2, 3)
    assert x[1].float().mean() == 255


def test_lengths_beside_sequences():
    class Summed(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(4, 2)

        def forward(self, x, lengths):
            return self.last(x / lengths.unsqueeze(1))

    learner = made(model=Summed())
    learner.observe({"x": X, "lengths": torch.arange(1, 7)}, Y)
    assert learner.memory.samples()[0]["lengths"].tolist() == [1, 2, 3, 4, 5, 6]


def test_the_loss_alone_without_memories():
    head = DualLinear(4, rows=2)
    h, y = torch.rand(3, 4), torch.tensor([0, 1, 0])
    assert torch.equal(losses.uer(head, (h, y), (h[:0], y[:0])), losses.uer(head, (h, y)))


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
    learner = made(method, model=Watchful())
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


def test_a_module_whose_state_no_file_can_hold(tmp_path):
    model = Watchful()
    model.get_extra_state = lambda: {1, 2}
    learner = made(model=model)
    learner.observe(X, Y)
    with pytest.raises(InputError, match="'trunk._extra_state' must be a tensor, a Network, or a value that JSON"):
        learner.save(tmp_path / "state")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("passes", ["joint", "separate"])
def test_a_module_that_writes_to_its_input(passes):
    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(4, 2)

        def forward(self, x):
            return self.last(x.mul_(2))

    learner = made(model=Writes(), passes=passes)
    for _ in range(2):
        learner.observe(X, Y)
    assert torch.equal(learner.memory.samples()[0][:6], X)


@pytest.mark.parametrize("compiled", [torch.jit.script, lambda module: torch.jit.trace(module, X)])
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_trunk_of_torchscript(compiled, same):
    ours, plain = (made("uer+ema", model=Network.of(trunk, dim=8)) for trunk in (compiled(mlp()[:2]), mlp()[:2]))
    for learner in (ours, plain):
        for _ in range(3):
            learner.observe(X, Y)
    torch.testing.assert_close(ours.scores(X), plain.scores(X))


def test_a_copy_made_while_another_thread_learns_is_of_a_complete_step(same):
    learner, twin = made(model=Slow()), made(model=Slow())
    learner.observe(X, Y)
    twin.observe(X, Y)
    Slow.passing.clear()
    thread = threading.Thread(target=learner.observe, args=(X, Y))
    thread.start()
    Slow.passing.wait()
    copied = copy.deepcopy(learner)
    thread.join()
    twin.observe(X, Y)
    assert same(copied, twin)


class Slow(nn.Module):
    """Tells when it passes something on, and takes its time."""

    passing = threading.Event()

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        h = self.first(x)
        if self.training:
            Slow.passing.set()
            time.sleep(0.1)
        return self.last(torch.relu(h))


def test_a_second_learner_of_a_network_leaves_the_first_alone():
    network = Network.of(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8)))
    learner = Learner(network, device="cpu")
    learner.observe(X, Y)
    before = learner.scores(X)
    for _ in range(2):
        with pytest.raises(InputError, match="already belongs to a learner"):
            Learner(network, device="cpu")
    assert torch.equal(learner.scores(X), before)


def test_a_network_of_a_saved_learner_in_use_is_left_alone(tmp_path):
    learner = made()
    learner.observe(X, Y)
    learner.save(tmp_path / "saved")
    before = learner.scores(X)
    with pytest.raises(InputError, match="already belongs to a learner"):
        Learner.load(tmp_path / "saved", learner.network, device="cpu")
    assert torch.equal(learner.scores(X), before)


def test_a_network_can_be_used_after_a_mistake():
    network = Network.of(mlp())
    with pytest.raises(InputError, match="the network has no neck"):
        Learner(network, "uer(couple='both')", device="cpu")
    Learner(network, device="cpu").observe(X, Y)


class Scripted(nn.Module):
    """A scripted part, whose tensors Python does not hold."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.part = torch.jit.script(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU()))
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.part(x))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_failed_step_of_a_scripted_module_leaves_no_trace(same, monkeypatch):
    learner, twin = made(model=Scripted()), made(model=Scripted())
    for each in (learner, twin):
        each.observe(X, Y)
    with monkeypatch.context() as broken:
        broken.setattr(learner.optimizer, "step", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            learner.observe(X, [7, 8] * 3)
    assert learner.labels == [0, 1]
    for each in (learner, twin):
        each.observe(X, Y)
    assert same(learner, twin)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_copy_of_a_learner_with_a_scripted_part_learns_on(same):
    learner = made(model=Scripted())
    learner.observe(X, Y)
    copied = copy.deepcopy(learner)
    for each in (learner, copied):
        each.observe(X, Y)
    assert same(learner, copied)


def test_a_traced_graph_is_a_module_like_any_other(same):
    traced, plain = made(model=torch.fx.symbolic_trace(mlp())), made()
    for each in (traced, plain):
        each.observe(X, Y)
    copied = copy.deepcopy(traced)
    for each in (traced, plain, copied):
        each.observe(X, Y)
    assert torch.equal(traced.scores(X), plain.scores(X))
    assert same(traced, copied)


class Sharing(nn.Module):
    """Two parts that pass something on through a dict which both hold."""

    class First(nn.Linear):
        def forward(self, x):
            self.shared["x"] = x
            return super().forward(x)

    class Second(nn.Linear):
        def forward(self, x):
            return super().forward(x + self.shared["x"])

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.parts = nn.Sequential(Sharing.First(4, 4), Sharing.Second(4, 8))
        self.last, shared = nn.Linear(8, 2), {}
        shared["itself"] = self.parts[0].shared = self.parts[1].shared = shared

    def forward(self, x):
        return self.last(self.parts(x))


def test_parts_that_share_a_dict_share_one_in_a_copy():
    learner = made(model=Sharing())
    learner.observe(X, Y)
    with torch.no_grad():
        [expected] = learner.network(X[:3])
    assert torch.equal(learner.scores(X[:3]), expected)


class Fourier(nn.Module):
    """Complex parameters."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.filter, self.last = nn.Parameter(torch.randn(3, dtype=torch.cfloat)), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(torch.fft.irfft(torch.fft.rfft(x) * self.filter, n=4))


def test_complex_parameters_are_averaged():
    learner = made("er+ema(decay=0.5, by_row=False)", Fourier())
    for _ in range(20):
        learner.observe(X, Y)
    [average] = [value for value in learner.kept.values() if isinstance(value, Network)]
    live = learner.network.trunk.filter
    before, now = (average.trunk.filter - live).abs().max(), live.abs().max()
    assert 0 < before < 0.01 * now


@pytest.mark.parametrize("method", ["uer", "uer+ema", "er_wa(distil=True)"])
def test_a_copy_of_a_model_that_holds_a_lock(method, same):
    model = mlp()
    model.lock = threading.Lock()
    learner = made(method, model)
    learner.observe(X, Y)
    learner.boundary()
    copied = copy.deepcopy(learner)
    for each in (learner, copied):
        each.observe(X, Y)
    assert same(learner, copied)


def test_an_optimizer_of_another_kind_is_refused(tmp_path):
    learner = made(optimizer=lambda p: torch.optim.SGD(p, 0.1, momentum=0.9))
    learner.observe(X, Y)
    learner.save(tmp_path / "saved")
    with pytest.raises(InputError, match=r"must be SGD, as when it was saved\. Got 'Adam' instead"):
        Learner.load(tmp_path / "saved", mlp(), optimizer=lambda p: torch.optim.Adam(p, 0.1), device="cpu")


def test_a_backbone_is_rebuilt_in_float32(tmp_path):
    learner = made(model=MLP((4,)))
    learner.observe(X, Y)
    learner.save(tmp_path / "saved")
    torch.set_default_dtype(torch.float64)
    try:
        back = Learner.load(tmp_path / "saved", device="cpu")
        assert torch.equal(back.scores(X), learner.scores(X))
    finally:
        torch.set_default_dtype(torch.float32)


class Viewing(nn.Module):
    """Flattens images with `view`, so that their channels must not come last."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.last = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(64, 2)

    def forward(self, x):
        return self.last(self.conv(x).view(len(x), -1))


def test_a_module_takes_images_in_any_layout():
    images = torch.rand(6, 3, 4, 4).to(memory_format=torch.channels_last)
    learner = made(model=Viewing())
    learner.observe(images, Y)
    assert torch.allclose(learner.module()(images), learner.scores(images), atol=1e-5)


def test_a_row_of_a_frame_is_no_batch():
    frame = pytest.importorskip("pandas").DataFrame(X.numpy()).astype("Float64")
    learner = made()
    learner.observe(frame, Y)
    with pytest.raises(InputError, match="A batch must hold at least one sample"):
        learner.predict(frame.iloc[0])


@pytest.mark.parametrize("y", [torch.empty(0, dtype=torch.int64), torch.tensor([0.5, 1.0])])
def test_classes_that_a_loss_cannot_use(y):
    with pytest.raises(InputError, match="The classes of a loss must be whole numbers"):
        losses.uer(DualLinear(4, rows=2), (torch.rand(len(y), 4), y))
