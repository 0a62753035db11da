import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import errors
from evenhand.core.settings import DEFAULTS, PRESETS
from evenhand.experiment.spec import NUMBERS, Spec


def test_the_key_does_not_depend_on_spelling():
    plain = Spec.make(method="uer")
    assert Spec.make(method=" uer( alpha = 0.5 ) ") == plain
    assert Spec.make(method="uer(alpha=0.5)").key == plain.key
    assert plain.key.startswith("uer-fashion-cut-m200-s0-")
    small = Spec.make(method="uer", backbone="mlp")
    assert Spec.make(method="uer", backbone=" mlp( hidden = 64 )").key == small.key
    assert Spec.make(method="uer", backbone="mlp(hidden=8)").key != small.key
    assert Spec.make(method="uer+mir") == Spec.make(method="mir+uer")
    assert Spec.make(method="uer", order="smooth(width=1.0)") == Spec.make(method="uer", order="smooth(width=1)")
    assert Spec.make(method="uer", order="iid(twice=True)") == Spec.make(method="uer", order="iid++")


CHANGES = [
    {"data": "cifar10"}, {"size": 8}, {"skip_bad": True}, {"imbalance": 2}, {"tested": "validation"}, {"tests": "cos"},
    {"softmax": "all"}, {"pace": "realtime"},
    {"method": "er"}, {"method": "uer(alpha=0.3)"}, {"seed": 1}, {"memory": 100}, {"lr": 0.2}, {"stages": 2},
    {"batch": 5}, {"replay": 5}, {"iterations": 2}, {"backbone": "small_cnn"}, {"neck": True}, {"augment": "crop"},
    {"augment": "crop", "views": "concat"}, {"passes": "separate"}, {"order": "iid"},
    {"columns": "photo,animal"}, {"keep_partial": True},
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_every_field_changes_the_key(change):
    assert {name for one in CHANGES for name in one} == set(Spec.model_fields)
    assert Spec.make(**{"method": "uer", **change}).key != Spec.make(method="uer").key


@pytest.mark.parametrize("name", NUMBERS)
def test_true_is_no_number(name):
    with pytest.raises(errors.InputError, match=f"The '{name}' of a run must be a (whole )?number .*Got True instead."):
        Spec.make(method="uer", **{name: True})


def test_a_revision_changes_the_key(monkeypatch):
    from dataclasses import replace

    from evenhand.core import registry

    before = Spec.make(method="uer").key
    recipes = {**registry.recipes(), "uer": replace(registry.recipes()["uer"], revision=2)}
    monkeypatch.setattr(registry, "recipes", lambda: recipes)
    assert Spec.make(method="uer").key != before


@pytest.mark.parametrize("given", [{"tests": "ema"}, {"method": "uer+ema"}])
def test_a_new_default_changes_the_key_though_not_the_spelling(monkeypatch, given):
    from dataclasses import replace

    from evenhand.core import registry
    from evenhand.methods.ema import ema

    spec = Spec.make(**{"method": "uer", **given})
    before = spec.key
    fast = replace(registry.recipes()["ema"], build=lambda method, decay=0.5, by_row=True: ema(method, decay, by_row))
    recipes = {**registry.recipes(), "ema": fast}
    monkeypatch.setattr(registry, "recipes", lambda: recipes)
    assert Spec.make(**{"method": "uer", **given}) == spec
    assert spec.key != before


def test_presets_say_how_images_are_shown_and_hands_override():
    for data in ("cifar10", "cifar100", "miniimagenet"):
        own = Spec.make(method="uer", data=data)
        assert Spec.make("paper", method="uer", data=data) == own
        assert (own.memory, own.augment, own.views, own.passes) == (1000, "scr", "concat", "joint")
        plain = Spec.make("plain", method="uer", data=data)
        assert plain == own.model_copy(update={"augment": "none", "views": "none"})
    assert DEFAULTS["cifar10"]["stages"] == 5
    assert DEFAULTS["cifar100"]["stages"] == 10
    assert PRESETS.keys() == {"plain", "paper"}
    shown = Spec.make("paper", method="uer", memory=50)
    assert (shown.memory, shown.stages, shown.augment, shown.views) == (50, 5, "scr", "concat")
    assert Spec.make("paper", method="uer", augment="none").views == "none"
    assert Spec.make("paper", method="uer", augment="crop").views == "concat"
    assert Spec.make("paper", method="uer", views="replace").augment == "scr"
    assert Spec.make(method="uer", augment="crop").views == "replace"
    assert Spec.make("plain", method="uer", data="cifar100", augment="crop").views == "replace"
    assert Spec.make(method="finetune", order="iid").stages == 1


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"method": "eur"}, "no method called 'eur'. Did you mean"),
        ({"method": "uer(alpha=1.5)"}, r"'alpha' parameter of uer must be a number in \[0, 1\]. Got 1.5 instead"),
        ({"method": "uer(alfa=1)"}, "no parameter of uer called 'alfa'. Did you mean alpha"),
        ({"method": "er(alpha=1)"}, "er takes no parameters"),
        ({"method": "uer", "memory": -1}, "'memory' of a run must be a whole number of at least 0. Got -1 instead"),
        ({"method": "uer", "memory": "many"}, "'memory' of a run must be a whole number of at least 0"),
        ({"method": "uer", "lr": float("nan")}, "'lr' of a run must be"),
        ({"method": "uer", "lr": 0}, "'lr' of a run must be a number above 0"),
        ({"method": "uer", "data": "fashion"}, "no dataset called 'fashion'. Did you mean fashion-cut"),
        ({"method": "uer", "backbone": "resnet18"}, "no backbone called 'resnet18'. Did you mean reduced_resnet18"),
        ({"method": "uer", "backbone": "mlp(width=8)"}, "no parameter of mlp called 'width'"),
        ({"method": "uer", "order": "random"}, "There is no order called"),
        (
            {"method": "uer", "views": "concat"},
            "The 'views' of a run must be none without an augmentation. Got 'concat' instead.",
        ),
        ({"method": "uer", "order": "iid", "stages": 5}, "'stages' of a run must be 1 in the order iid"),
        ({"method": "uer", "preset": "papers"}, "no preset called 'papers'. Did you mean paper"),
        ({"method": "uer", "epochs": 3}, "no field of a run called 'epochs'"),
    ],
)
def test_bad_fields_get_one_sentence(fields, sentence):
    with pytest.raises(errors.InputError, match=sentence) as caught:
        Spec.make(fields.pop("preset", None), **fields)
    assert "\n" not in str(caught.value)


specs = st.builds(
    lambda **fields: Spec.make(**fields),
    method=st.sampled_from(["er", "uer", "uer(alpha=0.25)", "lucir", "finetune+uer"]),
    memory=st.integers(0, 10**7),
    seed=st.integers(0, 2**40),
    lr=st.floats(1e-6, 10),
    batch=st.integers(1, 100),
    augment=st.sampled_from(["none", "crop", "scr"]),
)


@given(specs)
def test_a_spec_survives_json(spec):
    again = Spec.read(json.loads(json.dumps(spec.model_dump())))
    assert again == spec
    assert again.key == spec.key


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(list(Spec.model_fields)) | st.text(max_size=8), json_values, max_size=4))
def test_any_fields_give_a_spec_or_one_sentence(fields):
    try:
        Spec.read(fields)
    except errors.InputError as error:
        assert "\n" not in str(error) or "\\n" in repr(fields)  # noqa: PT017
