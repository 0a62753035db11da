import math
from pathlib import Path
from typing import Annotated, Literal

import pytest

from evenhand import errors
from evenhand.cli.options import NOT_FLAGS, Execution, RunSettings
from evenhand.core import settings
from evenhand.core.settings import CONDITIONS, DEFAULTS, LEARNER, PRESETS, RUN, Conditions
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


def test_the_page_is_made_from_the_declarations():
    assert (Path(__file__).parents[2] / "docs/settings.md").read_text() == settings.page()


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
