"""Settings: declared once and found everywhere, and what a learner takes for them and what not."""

import math
from typing import Annotated, Literal

import numpy as np
import pytest
import torch
from torch import nn

from core.made import small
from evenhand import Learner, Network, errors, resolve
from evenhand.backbones import SmallCNN
from evenhand.cli.options import NOT_FLAGS, Execution, RunSettings
from evenhand.core import settings
from evenhand.core.settings import CONDITIONS, DEFAULTS, LEARNER, PRESETS, RUN, Conditions
from evenhand.errors import InputError
from evenhand.experiment.spec import Spec


def test_every_setting_is_declared_once_and_found_everywhere():
    assert list(Spec.model_fields) == list(RUN)
    assert {*RunSettings.__dataclass_fields__} == {*RUN, "data_dir", "preset"} - {*NOT_FLAGS}
    assert {*CONDITIONS} == {*Conditions.__dataclass_fields__} < {*Execution.__dataclass_fields__}
    assert {*LEARNER} <= {*RUN}
    for defaults in (*DEFAULTS.values(), *PRESETS.values()):
        settings.check("run", **defaults)


def test_a_new_setting_becomes_a_field_and_a_flag():
    from evenhand.cli.options import flags

    class Further(settings.Settings):
        colour: Annotated[Literal["red", "blue"], "Colour of the run."] = "red"

    declared = settings.declared(Further)
    assert list(declared) == [*RUN, "colour"]
    options = flags({"colour": declared["colour"]}, optional=True)(type("Options", (), {"__annotations__": {}}))
    assert options().colour is None
    [hint] = options.__annotations__.values()
    assert hint.__metadata__[0].help == "Colour of the run. [default: red]"


@pytest.mark.parametrize(
    ("name", "value", "must"),
    [
        ("memory", -1, "be a whole number of at least 0"),
        ("memory", 1.5, "be a whole number of at least 0"),
        ("memory", True, "be a whole number of at least 0"),
        ("lr", 0, "be a number above 0"),
        ("lr", math.inf, "be a number above 0"),
        ("lr", math.nan, "be a number above 0"),
        ("lr", "fast", "be a number above 0"),
        ("size", 0, "be a whole number of at least 1"),
        ("neck", 1, "be True or False"),
        ("augment", "crops", "be one of none, crop, scr"),
        ("augment", ["crop"], "be one of none, crop, scr"),
        ("order", 3, "be a string"),
        ("compile", True, "be one of auto, on, off"),
    ],
)
def test_a_value_that_is_not_allowed_gets_one_sentence(name, value, must):
    with pytest.raises(errors.InputError) as caught:
        settings.check("run", **{name: value})
    assert str(caught.value) == f"The '{name}' of a run must {must}. Got {value!r} instead."


def test_values_that_are_allowed():
    settings.check("run", memory=0, lr=1, size=None, neck=False, augment="crop", order="iid", imbalance=1)


def test_auto_takes_the_conditions_under_which_a_run_was_started():
    assert Conditions(precision="auto").recorded() == {}
    assert Conditions(compile="on").recorded() == {"compile": True, "precision": "fp32"}
    assert Conditions().as_started({"compile": True, "threads": 2}) == Conditions(compile="on")
    assert Conditions().as_started({"compile": False}) == Conditions(compile="off")
    assert Conditions(compile="off").as_started({"compile": True}) == Conditions(compile="off")
    assert Conditions().as_started({}) == Conditions()
    assert Conditions(precision="auto").as_started({"precision": "bf16"}) == Conditions(precision="bf16")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "uer(alpha=1.5)"}, r"The 'alpha' parameter of uer must be a number in \[0, 1\]\. Got 1\.5 instead"),
        ({"method": "uer(alpha=-0.1)"}, r"The 'alpha' parameter of uer must be .* Got -0\.1 instead"),
        ({"method": "uer(alpha='x')"}, r"The 'alpha' parameter of uer must be .* Got 'x' instead"),
        ({"method": "eur"}, r"There is no method called 'eur'\. Did you mean .*uer"),
        ({"method": "uer(couple='neck')"}, r"couples 'neck', but the network has no neck\. .*neck=True"),
        ({"method": "uer(couple='foot')"}, r"'couple' field of a scoring must be one of head, neck, both\. Got 'foot'"),
        ({"memory": -1}, r"The 'memory' of a learner must be a whole number of at least 0\. Got -1 instead"),
        ({"memory": 0.5}, r"The 'memory' of a learner must be a whole number"),
        ({"replay": 0}, r"The 'replay' of a learner must be a whole number of at least 1\. Got 0 instead"),
        ({"lr": -0.1}, r"The 'lr' of a learner must be a number above 0\. Got -0\.1 instead"),
        ({"lr": math.nan}, r"The 'lr' of a learner must be .* Got nan instead"),
        ({"lr": "fast"}, r"The 'lr' of a learner must be .* Got 'fast' instead"),
        ({"iterations": 0}, r"The 'iterations' of a learner must be a whole number of at least 1\. Got 0 instead"),
        ({"augment": "blur"}, r"'augment' of a learner must be one of none, crop, scr\. Got 'blur' instead"),
        (
            {"augment": "crop", "views": "both"},
            r"'views' of a learner must be one of none, replace, concat\. Got 'both' instead",
        ),
        (
            {"augment": "none", "views": "concat"},
            r"The 'views' of a learner must be none without an augmentation\. Got 'concat' instead",
        ),
        (
            {"augment": "scr", "views": "none"},
            r"The 'views' of a learner must be replace or concat with an augmentation\. Got 'none' instead",
        ),
        ({"passes": "twice"}, r"'passes' of a learner must be one of joint, separate\. Got 'twice' instead"),
        ({"seed": 1.0}, r"The 'seed' of a learner must be a whole number of at least 0\. Got 1\.0 instead"),
        ({"seed": True}, r"The 'seed' of a learner must be a whole number of at least 0\. Got True instead"),
    ],
)
def test_settings_that_cannot_be(options, sentence):
    with pytest.raises(InputError, match=sentence):
        Learner(Network.of(SmallCNN((1, 8, 8))), **options)


@pytest.mark.parametrize("alpha", [0, 1, 0.0, 1.0, 0.25])
def test_alpha_may_touch_its_bounds(alpha):
    assert resolve(f"uer(alpha={alpha})").scoring.replay.dot == alpha


def test_an_infinite_learning_rate():
    with pytest.raises(InputError, match="'lr'"):
        small(lr=math.inf)


@pytest.mark.parametrize("options", [{"method": 5}, {"method": None}, {"device": "abacus"}])
def test_methods_and_devices_that_are_none(options):
    with pytest.raises(InputError):
        small(**options)


def test_numbers_of_numpy_as_settings(same):
    def learner_of(whole, real):
        torch.manual_seed(0)
        return Learner(nn.Linear(3, 2), memory=whole(8), replay=whole(4), lr=real(0.25), seed=whole(3), device="cpu")

    one, other = learner_of(np.int64, np.float32), learner_of(int, float)
    for learner in (one, other):
        learner.observe(torch.rand(2, 3, generator=torch.Generator().manual_seed(0)), [0, 1])
    assert same(one, other)
    assert one.facts() == other.facts()
