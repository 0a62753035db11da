from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from evenhand import Batch, Learner, Network, errors, resolve
from evenhand.backbones import MLP
from evenhand.methods.ss_il import STAGES as ENDS
from evenhand.methods.ss_il import TEACHER
from reference import er_ace, losses, ss_il

DIM, CLASSES, STAGES = 5, 7, [[0, 1], [2, 3, 4]]
CURRENT, REPLAYED = [6, 5, 6, 6], [0, 4, 1, 2, 3, 4]


class Still(nn.Module):
    """The teacher's trunk: its features are no function of the student's, even where the inputs are features."""

    def forward(self, x):
        return x.detach()


def normal(*shape, drawn):
    return torch.randn(*shape, generator=drawn, dtype=torch.float64)


def compared(method, reference, views=1):
    """Whether loss and gradients of a method, with a teacher of the first five classes, are those of a reference."""
    drawn = torch.Generator().manual_seed(views)
    learner = Learner(MLP((DIM,), hidden=0), method, device="cpu")
    learner.network.grow(CLASSES, drawn)
    learner.labels = list(range(CLASSES))
    head = learner.network.double().head
    teacher = Network.of(Still(), dim=DIM)
    teacher.grow(5, drawn)
    learner.kept[ENDS], learner.kept[TEACHER] = [2, 5], teacher
    taught = learner.kept[TEACHER].double().head
    for layer in (head, taught):
        layer.weight.data, layer.bias.data = (normal(*p.shape, drawn=drawn) for p in (layer.weight, layer.bias))
    batches, lists = [], []
    for y in (CURRENT, REPLAYED):
        h = normal(views * len(y), DIM, drawn=drawn).requires_grad_()
        batches.append(Batch(h[: len(y)].detach(), torch.tensor(y), views=h))
        lists.append(list(zip(h.tolist(), y * views, strict=True)))
    expected = reference(
        {"head": (head.weight.tolist(), head.bias.tolist())},
        *lists,
        teacher=(taught.weight.tolist(), taught.bias.tolist()),
    )
    loss = learner.method.objective(learner, *batches).total
    leaves = {"head.W": head.weight, "head.b": head.bias, "current": batches[0].views, "replayed": batches[1].views}
    found = torch.autograd.grad(loss, list(leaves.values()))
    pairs = [(loss.item(), expected["loss"])] + [(g, expected[k]) for k, g in zip(leaves, found, strict=True)]
    return all(np.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in pairs)


def untaught(layers, current, replayed, teacher):
    return ss_il.ss_il(layers, current, replayed, None, STAGES)


def unmasked(layers, current, replayed, teacher):
    plain = losses.er(layers, current, replayed)
    return losses.weighted((1, plain), (1, ss_il.distillation(layers, teacher, replayed, STAGES)))


def old_among_all(layers, current, replayed, teacher):
    learning = er_ace.expectation_among(layers, current, "dot", "current", {5, 6})
    replaying = er_ace.expectation_among(layers, replayed, "dot", "replayed", set(range(CLASSES)))
    return losses.weighted((1, learning), (1, replaying), (1, ss_il.distillation(layers, teacher, replayed, STAGES)))


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize(
    ("method", "reference"),
    [
        ("ss_il", partial(ss_il.ss_il, stages=STAGES)),
        ("ss_il(distil=False)", untaught),
        ("ss_il+uer(alpha=0.3)", partial(ss_il.ss_il, stages=STAGES, alpha=0.3)),
    ],
)
def test_loss_and_gradients(method, reference, views):
    assert compared(method, reference, views)


@pytest.mark.parametrize(
    ("method", "mutant"),
    [
        ("ss_il", unmasked),
        ("ss_il", old_among_all),
        ("ss_il", untaught),
        ("ss_il", partial(ss_il.ss_il, stages=[[0, 1, 2, 3, 4]])),  # one softmax over all old classes
        ("ss_il", partial(ss_il.ss_il, stages=STAGES, temperature=1.0)),
        ("ss_il(distil=False)", partial(ss_il.ss_il, stages=STAGES)),
        ("ss_il+uer(alpha=0.3)", partial(ss_il.ss_il, stages=STAGES, alpha=0.7)),
        ("ss_il+uer(alpha=0.3)", partial(ss_il.ss_il, stages=STAGES)),
    ],
)
def test_a_wrong_equation_is_noticed(method, mutant):
    assert not compared(method, mutant)


def two_stages(method="ss_il", **options):
    """A learner within its second stage, whose memory has classes of both."""
    learner = Learner(MLP((4,), hidden=0), method, **{"memory": 12, "replay": 4, "device": "cpu"} | options)
    drawn = torch.Generator().manual_seed(0)
    for labels in (["b", "a", "b"], ["a", "b", "a"]):
        learner.observe(torch.rand(3, 4, generator=drawn), labels)
    learner.boundary()
    learner.observe(torch.rand(3, 4, generator=drawn), [9, 3, 9])
    return learner


def test_only_earlier_stages_come_back():
    learner = two_stages()
    assert set(learner.memory.columns["y"][:9].tolist()) == {0, 1, 2, 3}
    batch, drawn = learner.memory.read(torch.tensor([0])), set()
    for _ in range(50):
        back = learner.method.retrieval(learner, batch)
        assert len(set(back.slots.tolist())) == 4
        drawn |= set(back.slots.tolist())
    assert drawn == set(range(6))


def test_fewer_come_back_where_fewer_are_there():
    learner = two_stages(replay=10)
    assert sorted(learner.method.retrieval(learner, None).slots.tolist()) == [0, 1, 2, 3, 4, 5]


def test_nothing_comes_back_in_the_first_stage():
    learner = Learner(MLP((4,), hidden=0), "ss_il", memory=5, device="cpu")
    assert learner.method.retrieval(learner, None) is None
    learner.observe(torch.rand(3, 4, generator=torch.Generator().manual_seed(0)), [0, 1, 1])
    assert len(learner.memory) == 3
    assert learner.method.retrieval(learner, None) is None


def test_the_stream_does_not_touch_rows_of_earlier_stages():
    learner = two_stages(memory=0)
    before = learner.network.head.weight.detach().clone()
    learner.observe(torch.rand(2, 4, generator=torch.Generator().manual_seed(1)), [3, 3])
    moved = (learner.network.head.weight.detach() != before).any(1).tolist()
    assert dict(zip(learner.labels, moved, strict=True)) == {"b": False, "a": False, 9: True, 3: True}


def test_a_class_of_an_earlier_stage_may_come_again():
    learner = two_stages()
    learner.observe(torch.rand(2, 4, generator=torch.Generator().manual_seed(1)), ["a", 9])
    assert all(p.isfinite().all() for p in learner.network.parameters())


def test_the_teacher_is_the_network_of_the_last_boundary(learner, images):
    made = learner("ss_il")
    assert TEACHER not in made.kept
    for stage in range(2):
        for x, y in images(3, classes=2, seed=stage):
            made.observe(x, [label + 2 * stage for label in y])
        at_boundary = {name: tensor.clone() for name, tensor in made.network.state_dict().items()}
        made.boundary()
        for x, y in images(2, classes=2, seed=9):
            made.observe(x, [label + 2 * stage + 2 for label in y])
        taught = made.kept[TEACHER].state_dict()
        assert taught.keys() == at_boundary.keys()
        assert all(torch.equal(taught[name], at_boundary[name]) for name in taught)
        assert not made.kept[TEACHER].training
    assert TEACHER not in two_stages("ss_il(distil=False)").kept


def test_the_teacher_survives_a_save_to_the_bit(learner, images, same, tmp_path):
    made = learner("ss_il", memory=20)
    for x, y in images(4, classes=2):
        made.observe(x, y)
    made.boundary()
    more = [(x, [label + 2 for label in y]) for x, y in images(5, classes=2, seed=1)]
    made.observe(*more[0])
    made.save(tmp_path / "saved.safetensors")
    loaded = Learner.load(tmp_path / "saved.safetensors", device="cpu")
    assert same(made, loaded)
    assert loaded.kept[TEACHER].rows == 2
    assert not loaded.kept[TEACHER].training
    for x, y in more[1:]:
        made.observe(x, y)
        loaded.observe(x, y)
    assert same(made, loaded)
    loaded.kept[TEACHER].head.weight.data.neg_()  # and it matters what the teacher is
    made.observe(*more[1])
    loaded.observe(*more[1])
    assert not torch.equal(made.network.head.weight, loaded.network.head.weight)


@pytest.mark.parametrize("name", ["ss_il(distil={})", "er_wa(persist={})"])
@pytest.mark.parametrize("value", ["3", "'no'", "None"])
def test_switches_are_validated(name, value):
    with pytest.raises(errors.InputError, match=r"parameter of (ss_il|er_wa) must be True or False"):
        resolve(name.format(value))
