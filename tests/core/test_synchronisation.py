"""On a GPU a step must not wait for the device: nothing between objective and update asks the host for a value."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from evenhand import Learner
from evenhand.backbones import ReducedResNet18

ASKING = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::is_nonzero", "aten::equal"}
INDEXING = {"aten::index", "aten::index_put", "aten::index_put_"}
READING = ("cpu", "numpy", "tolist")  # on a CPU they reach no operator, so they are caught by their names
METHODS = ["er", "uer", "lucir", "er_ace", "derpp"]


class NoQuestions(TorchDispatchMode):
    """Raises where a value of a tensor is wanted, or a shape that depends on one."""

    def __enter__(self):
        self.patch = pytest.MonkeyPatch()
        for name in READING:
            self.patch.setattr(torch.Tensor, name, self.refuse(name))
        return super().__enter__()

    def __exit__(self, *error):
        self.patch.undo()
        return super().__exit__(*error)

    @staticmethod
    def refuse(name):
        def raising(*_):
            raise AssertionError(f"{name} waits for the device")

        return raising

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        name = function.name().partition(".")[0]
        if name in ASKING:
            raise AssertionError(f"{name} waits for the device")
        masks = [part for part in arguments[1] if part is not None] if name in INDEXING else []
        if any(mask.dtype in (torch.bool, torch.uint8) for mask in masks):
            raise AssertionError("boolean indexing waits for the device")
        if name == "aten::_to_copy" and (named or {}).get("device") not in (None, torch.device("cpu")):
            raise AssertionError("a copy between devices")
        return function(*arguments, **(named or {}))


def watched(method):
    """The method with its objective and its update under watch."""

    def objective(learner, batch, replay):
        with NoQuestions():
            return method.objective(learner, batch, replay)

    def update(learner, losses):
        with NoQuestions():
            method.update(learner, losses)

    return method.but(objective=objective, update=update)


def steps(learner, count=4):
    drawn = torch.Generator().manual_seed(0)
    for _ in range(count):
        x = torch.randint(256, (10, 3, 16, 16), generator=drawn).to(torch.uint8)
        learner.observe(x, torch.randint(6, (10,), generator=drawn))


def fresh(name, **options):
    learner = Learner(ReducedResNet18((3, 16, 16), width=4), name, memory=30, device="cpu", **options)
    steps(learner)
    learner.guard.interval = 1000  # as on a GPU
    learner.steps = 1
    return learner


@pytest.mark.parametrize("views", ["none", "concat"])
@pytest.mark.parametrize("name", METHODS)
def test_a_step_asks_the_device_nothing(name, views):
    learner = fresh(name, augment="none" if views == "none" else "scr", views=views)
    learner.method = watched(learner.method)
    steps(learner)


@pytest.mark.parametrize(
    "question",
    [
        lambda x: x.sum().item(),
        lambda x: bool(x.sum() > 0),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.masked_select(x > 0),
        lambda x: x.tolist(),
        lambda x: x.cpu(),
        lambda x: x.numpy(),
        lambda x: torch.where(x > 0),
        lambda x: x.clone().index_put_((x > 0,), torch.zeros(())),
    ],
)
def test_every_question_is_noticed(question):
    with pytest.raises(AssertionError, match="waits for the device"), NoQuestions():
        question(torch.rand(4))


def test_where_finiteness_is_asked_at_every_step_the_watch_says_so():
    learner = fresh("er")
    learner.guard.interval = 1
    learner.method = watched(learner.method)
    with pytest.raises(AssertionError, match="waits for the device"):
        steps(learner)


def test_a_loss_that_is_not_finite_is_found_within_the_steps_between_two_questions():
    learner = fresh("er")
    learner.guard.interval, learner.lr = 5, 1e30
    learner.optimizer.param_groups[0]["lr"] = 1e30
    with pytest.raises(ArithmeticError, match="Within the 5 steps up to .*go back to the last saved state"):
        steps(learner, 12)


@pytest.mark.parametrize("ask", ["predict", "boundary", "save"])
def test_before_anything_is_told_or_saved_the_question_is_asked(ask, tmp_path):
    learner = fresh("er")
    learner.guard.interval = 1000
    learner.optimizer.param_groups[0]["lr"] = 1e30
    steps(learner, 12)
    x = torch.zeros(1, *learner.kind.shape, dtype=getattr(torch, learner.kind.dtype))
    given = {"predict": [x], "boundary": [], "save": [tmp_path / "learner"]}[ask]
    with pytest.raises(ArithmeticError, match="Within the 1000 steps up to .*go back to the last saved state"):
        getattr(learner, ask)(*given)
    assert not (tmp_path / "learner").exists()
