"""Documented costs, as functions of parameters and of the sizes of a step, against the operations that torch counts."""

import pytest
import torch

from evenhand.backbones import ReducedResNet18
from evenhand.core import registry
from evenhand.core.flops import count_flops
from evenhand.core.learner import Learner
from evenhand.core.sizes import Sizes

NAMES = [
    "finetune",
    "scr",
    "mir",
    "mir(candidates=20)",
    "er_dvc(candidates=20)",
    "obc",
    "obc(apart=0)",
    "obc(apart=50)",
    "derpp",
    "derpp(shared=True)",
    "er_wa(distil=True)",
    "ss_il",
    "ss_il(distil=False)",
    "gmed",
    "aser",
    "aser(n=3)",
]


def operations(method, sizes):
    """Those of a step with ten classes and a memory of 60, once a stage has ended."""
    torch.manual_seed(0)
    views = {"augment": "scr", "views": "concat"} if sizes.views == 2 else {}
    network = ReducedResNet18((3, 16, 16), width=4)
    learner = Learner(network, method, memory=60, replay=sizes.replay, device="cpu", **views)
    learner.remember(torch.rand(60, 3, 16, 16), [i % 10 for i in range(60)])
    learner.boundary()
    x, y = torch.rand(sizes.batch, 3, 16, 16), [i % 10 for i in range(sizes.batch)]
    learner.observe(x, y)
    return count_flops(lambda: learner.observe(x, y))


@pytest.mark.parametrize("sizes", [Sizes(views=2), Sizes(batch=5, replay=15)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_a_cost_follows_parameters_and_sizes(name, sizes):
    measured = operations(name, sizes) / operations("er", sizes)
    assert registry.cost(name, sizes) == pytest.approx(measured, rel=0.06)


def test_a_cost_without_a_function_is_the_same_for_all_sizes():
    assert registry.cost("uer", Sizes(views=2)) == registry.cost("uer(alpha=0.1)") == 1


def test_without_a_choice_there_is_no_virtual_step():
    assert registry.cost("mir(candidates=10)") == 1
    assert registry.cost("er_dvc(candidates=10)") == 2
