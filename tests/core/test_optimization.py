"""Optimizers, schedules and clipping: what moves, what is saved, what new rows get."""

import math

import pytest
import torch
from torch import nn

from core.made import classifier, mlp, pictures, small
from evenhand import Learner
from evenhand.backbones import MLP
from evenhand.errors import InputError

X, Y = torch.rand(4, 4, generator=torch.Generator().manual_seed(0)), [0, 1, 2, 3]
NAMES = ["sgd", "sgd(momentum=0.9, weight_decay=0.01)", "sgd(momentum=0.9, nesterov=True)", "adam", "adamw", "rmsprop"]


def made(**options):
    torch.manual_seed(0)
    return Learner(MLP((4,), hidden=8), "er", **{"memory": 20, "device": "cpu", "lr": 0.05, **options})


def fed(learner, steps=4, offset=0):
    for step in range(steps):
        learner.observe(X + step + offset, Y)
    return learner


@pytest.mark.parametrize("name", NAMES)
def test_a_named_optimizer_resumes_to_the_same_bits(name, tmp_path, same):
    through, halfway = fed(made(optimizer=name)), fed(made(optimizer=name))
    halfway.save(tmp_path / "half")
    back = Learner.load(tmp_path / "half", device="cpu")
    assert (
        fed(through, offset=9).optimizer.state_dict()["param_groups"]
        == fed(back, offset=9).optimizer.state_dict()["param_groups"]
    )
    assert same(through, back)


@pytest.mark.parametrize(
    ("name", "torch_optimizer"),
    [
        ("sgd(momentum=0.9, weight_decay=0.01)", lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01)),
        ("adamw(weight_decay=0.1)", lambda p: torch.optim.AdamW(p, 0.05, weight_decay=0.1)),
        ("rmsprop(alpha=0.9)", lambda p: torch.optim.RMSprop(p, 0.05, alpha=0.9)),
    ],
)
def test_a_name_is_the_torch_optimizer_it_says(name, torch_optimizer, same):
    named, given = fed(made(optimizer=name)), fed(made(optimizer=torch_optimizer))
    assert same(named, given, but=["settings", "optimizer"])
    assert not same(named, fed(made()), but=["settings", "optimizer"])


def test_a_factory_is_asked_for_again_at_load(tmp_path, same):
    def factory(parameters):
        return torch.optim.Adam(parameters, 1e-3)

    learner = fed(made(optimizer=factory))
    assert learner.lr == 1e-3
    learner.save(tmp_path / "given")
    with pytest.raises(InputError, match=r"saved with a function as 'optimizer'\. Pass the same one as optimizer="):
        Learner.load(tmp_path / "given", device="cpu")
    back = Learner.load(tmp_path / "given", optimizer=factory, device="cpu")
    assert same(fed(learner), fed(back))


@pytest.mark.parametrize("mistake", [KeyError, TypeError, AttributeError])
def test_a_mistake_in_a_factory_is_not_damage_of_the_file(tmp_path, mistake):
    def mistaken(parameters):
        raise mistake("mine")

    fed(made(optimizer=lambda parameters: torch.optim.Adam(parameters, 1e-3))).save(tmp_path / "given")
    with pytest.raises(mistake, match="mine"):
        Learner.load(tmp_path / "given", optimizer=mistaken, device="cpu")


@pytest.mark.parametrize("name", ["sgd(momentum=0.9)", "adam"])
def test_old_rows_keep_what_the_optimizer_knows_and_new_ones_start_afresh(name):
    """At zero, or at the mean of the squares: with zero there, their first steps would be too long."""
    learner = fed(made(optimizer=name))
    head = learner.network.head
    known = {key: value.clone() for key, value in learner.optimizer.state[head.weight].items() if key != "step"}
    learner.grow(2)
    assert len(learner.optimizer.state) == len(list(learner.network.parameters()))  # none left of the old ones
    for key, value in known.items():
        grown = learner.optimizer.state[learner.network.head.weight][key]
        assert torch.equal(grown[:4], value)
        assert grown.shape[0] == 6
        assert torch.allclose(grown[4:], value.mean() if "sq" in key else torch.tensor(0.0))


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        ("warmup(steps=4)", [0.25, 0.5, 0.75, 1, 1]),
        ("linear(steps=4)", [1, 0.75, 0.5, 0.25, 0]),
        ("linear(steps=2, end=0.5)", [1, 0.75, 0.5, 0.5, 0.5]),
        ("cosine(steps=4)", [(1 + math.cos(math.pi * step / 4)) / 2 for step in range(5)]),
        ("stairs(every=2, factor=0.1)", [1, 1, 0.1, 0.1, 0.01]),
        ("warmup(steps=2)+stairs(every=2, factor=0.1)", [0.5, 1, 0.1, 0.1, 0.01]),
        (lambda step: 1 / (1 + step), [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]),
    ],
)
def test_a_schedule_sets_the_rate_of_every_step(schedule, factors, tmp_path):
    learner = made(schedule=schedule)
    for step, factor in enumerate(factors):
        learner.observe(X, Y)
        assert learner.optimizer.param_groups[0]["lr"] == pytest.approx(0.05 * factor)
        if step == 2:
            learner.save(tmp_path / "half")
            learner = Learner.load(
                tmp_path / "half", device="cpu", **({"schedule": schedule} if callable(schedule) else {})
            )
    assert learner.lr == 0.05


def test_a_clipped_gradient_has_the_norm_it_may_have():
    clipped, free = made(clip=0.01), made()
    before = [p.detach().clone() for p in clipped.network.trunk.parameters()]
    for learner in (clipped, free):
        learner.observe(X, Y)
    moved = [p.detach() - b for p, b in zip(clipped.network.trunk.parameters(), before, strict=True)]
    assert torch.cat([m.flatten() for m in moved]).norm() <= 0.05 * 0.01 * 1.001
    assert not torch.equal(clipped.network.head.weight, free.network.head.weight)


def test_the_learning_rate_can_be_read_and_set(tmp_path, same):
    changed, throughout = made(lr=0.5), made(lr=0.01)
    changed.lr = 0.01
    assert same(fed(changed), fed(throughout))
    changed.lr = 0.002
    changed.save(tmp_path / "slow")
    back = Learner.load(tmp_path / "slow", device="cpu")
    assert back.lr == 0.002
    assert same(fed(back), fed(changed))
    for value in (0, -1, math.nan, "fast"):
        with pytest.raises(InputError, match="'lr' of a learner"):
            changed.lr = value
    assert changed.lr == 0.002


def test_a_learning_rate_outlives_a_step_that_fails():
    learner = fed(made())
    learner.predict(X)
    learner.lr = 0.002
    with pytest.raises(ZeroDivisionError):
        learner.forget(where=lambda x: 1 / 0)
    assert learner.lr == learner.optimizer.param_groups[0]["lr"] == 0.002


def test_the_groups_of_a_factory_keep_their_proportions(tmp_path):
    def factory(parameters):
        half = len(parameters) // 2
        return torch.optim.SGD([{"params": parameters[:half]}, {"params": parameters[half:], "lr": 0.4}], 0.1)

    learner = fed(made(optimizer=factory))
    learner.lr = 0.2
    assert [group["lr"] for group in learner.optimizer.param_groups] == pytest.approx([0.2, 0.8])
    learner.save(tmp_path / "groups")
    back = Learner.load(tmp_path / "groups", optimizer=factory, device="cpu")
    assert [group["lr"] for group in back.optimizer.param_groups] == pytest.approx([0.2, 0.8])
    with pytest.raises(InputError, match="The optimizer must have 2 groups, as when it was saved. Got 1 instead"):
        Learner.load(tmp_path / "groups", optimizer=lambda parameters: torch.optim.SGD(parameters, 0.1), device="cpu")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"optimizer": "adamv"}, "no optimizer called 'adamv'. Did you mean adam"),
        ({"optimizer": "adam+sgd"}, "no optimizer called"),
        ({"optimizer": "sgd(momentum=-1)"}, "cannot be built: Invalid momentum"),
        ({"optimizer": "sgd(lr=3)"}, "no parameter of sgd called 'lr'"),
        ({"optimizer": lambda parameters: None}, "must return a torch optimizer. Got 'NoneType'"),
        ({"schedule": "cosinus"}, "no schedule called 'cosinus'. Did you mean cosine"),
        ({"schedule": "cosine(steps=0)"}, "The 'steps' of the schedule cosine must be a number of at least 1"),
        ({"clip": 0}, "'clip' of a learner"),
    ],
)
def test_what_cannot_be_optimized_with(options, sentence):
    model = nn.Sequential(nn.Linear(4, 3))
    with pytest.raises(InputError, match=sentence):
        Learner(model, device="cpu", **options)


def test_an_optimizer_must_take_the_head():
    model = mlp()
    with pytest.raises(InputError, match="must take all parameters that it is given"):
        Learner(model, optimizer=lambda parameters: torch.optim.SGD(model.parameters(), 0.1), device="cpu")
    Learner(model, device="cpu").observe(X, Y)  # the module is whole


@pytest.mark.parametrize("name", ["Adafactor", "Rprop", "Adagrad", "NAdam", "ASGD"])
def test_other_optimizers_of_torch_grow_with_the_head(name, tmp_path, same):
    def factory(parameters):
        return getattr(torch.optim, name)(parameters, lr=0.01)

    learner = made(optimizer=factory)
    learner.observe(X, Y)
    learner.observe(X, [4, 5] * 2)
    learner.save(tmp_path / "state")
    back = Learner.load(tmp_path / "state", optimizer=factory, device="cpu")
    for each in (learner, back):
        each.observe(X, [6, 0] * 2)
    assert same(learner, back)


def test_an_optimizer_of_another_kind_is_refused(tmp_path):
    learner = made(optimizer=lambda p: torch.optim.SGD(p, 0.1, momentum=0.9))
    learner.observe(X, Y)
    learner.save(tmp_path / "saved")
    with pytest.raises(InputError, match=r"must be SGD, as when it was saved\. Got 'Adam' instead"):
        Learner.load(tmp_path / "saved", optimizer=lambda p: torch.optim.Adam(p, 0.1), device="cpu")


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
    back = Learner.load(tmp_path / "state", optimizer=counting, device="cpu")
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


def test_an_optimizer_whose_first_group_rests(tmp_path, same):
    def factory(parameters):
        groups = [{"params": parameters[:2], "lr": 0.0}, {"params": parameters[2:]}]
        return torch.optim.SGD(groups, 0.1)

    learner = made(optimizer=factory)
    learner.observe(X, Y)
    learner.save(tmp_path / "state")
    assert same(Learner.load(tmp_path / "state", optimizer=factory, device="cpu"), learner)


@pytest.mark.parametrize("factor", [float("nan"), float("inf"), None, "a", -1])
def test_a_schedule_that_returns_no_factor(factor):
    learner, fresh = made(schedule=lambda step: factor), made()
    with pytest.raises(InputError, match="The schedule at step 1 must be"):
        learner.observe(X, Y)
    assert learner.labels == []
    assert torch.equal(learner.network.trunk.layer.weight, fresh.network.trunk.layer.weight)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.Adam, torch.optim.Adagrad])
def test_a_fused_optimizer_of_convolutions_resumes_to_the_same_bits(kind, tmp_path, same):
    """Its kernels ignore strides, so moments must be laid out like the weights, channels last."""

    def factory(parameters):
        return kind(parameters, 1e-2, fused=True)

    x = pictures(channels=3)
    learner = small("er", classifier(), optimizer=factory)
    for _ in range(3):
        learner.observe(x, [0, 1, 0, 1])
    learner.save(tmp_path / "state")
    back = Learner.load(tmp_path / "state", classifier(), optimizer=factory, device="cpu")
    for each in (learner, back):
        each.observe(x, [0, 1, 0, 1])
    assert same(learner, back)


@pytest.mark.parametrize("predicts", [False, True])
def test_a_rate_set_in_the_optimizer_outlives_a_failed_step_and_a_file(predicts, tmp_path, same):
    def factory(parameters):
        return torch.optim.AdamW(parameters, 0.05)

    learner = fed(made(optimizer=factory))
    if predicts:
        learner.predict(X)  # which takes a snapshot
    learner.optimizer.param_groups[0].update(lr=0.002, betas=(0.8, 0.9))
    assert learner.lr == 0.002
    with pytest.raises(ZeroDivisionError):
        learner.forget(where=lambda x: 1 / 0)
    learner.save(tmp_path / "state")
    back = Learner.load(tmp_path / "state", optimizer=factory, device="cpu")
    for each in (learner, back):
        assert each.lr == each.optimizer.param_groups[0]["lr"] == 0.002
        assert each.optimizer.param_groups[0]["betas"] == (0.8, 0.9)
    assert same(fed(learner), fed(back))


def test_a_scheduler_of_torch_sets_the_rate_of_virtual_steps_too():
    learner = fed(made(optimizer=lambda parameters: torch.optim.SGD(parameters, 0.05)))
    scheduler = torch.optim.lr_scheduler.ExponentialLR(learner.optimizer, 0.5)
    learner.observe(X, Y)
    scheduler.step()
    assert learner.lr == 0.025
    with learner.scratch_copy():
        assert set(learner.rates) == {0.025}


class Rateless(torch.optim.Optimizer):
    """Finds its own step size."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad / (1 + parameter.grad.norm()))


def test_an_optimizer_without_a_learning_rate(tmp_path, same):
    learner = fed(made(optimizer=Rateless))
    assert learner.lr is None
    learner.save(tmp_path / "state")
    back = Learner.load(tmp_path / "state", optimizer=Rateless, device="cpu")
    assert same(fed(learner), fed(back))
    virtual = Learner(MLP((4,), hidden=8), "mir", optimizer=Rateless, memory=20, replay=2, device="cpu")
    virtual.observe(X, Y)
    with pytest.raises(InputError, match="virtual steps, for which Rateless has no learning rate"):
        virtual.observe(X, Y)


def test_an_optimizer_whose_state_belongs_to_no_parameter():
    class Counter(torch.optim.SGD):
        def step(self, closure=None):
            self.state["steps"] = 1
            return super().step(closure)

    learner = made(optimizer=lambda parameters: Counter(parameters, 0.1))
    learner.observe(X, Y)
    with pytest.raises(InputError, match="Counter keeps state that belongs to no parameter, which cannot be saved"):
        learner.observe(X, Y)
