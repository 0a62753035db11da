import json

import pytest

from evenhand import Method, resolve
from evenhand.core import registry
from evenhand.core.registry import recipes
from evenhand.errors import InputError

NAMES = sorted(recipes())


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("ue", "There is no method called 'ue'. Did you mean uer"),
        ("UER", "There is no method called 'UER'. Did you mean uer"),
        ("lucri", "Did you mean lucir"),
        ("fine_tune", "Did you mean finetune?"),
        ("qqqqqqqq", "Available: agem, "),
        ("uer(alfa=0.3)", "There is no parameter of uer called 'alfa'. Did you mean alpha?"),
        ("er(alpha=0.3)", "er takes no parameters. Got 'alpha'."),
    ],
)
def test_unknown_names_get_the_nearest_ones(text, hint):
    with pytest.raises(InputError) as caught:
        resolve(text)
    assert hint in str(caught.value)


@pytest.mark.parametrize("text", ["uer+uer", "lucir+uer", "uer+lucir", "uer_a+uer", "uer+finetune+uer"])
def test_two_methods_that_set_one_slot_name_it(text):
    with pytest.raises(
        InputError, match=r"cannot be composed: (uer|lucir) sets the slot 'scoring', which is already set"
    ):
        resolve(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("scr+uer", "uer+scr"),
        ("er_ace+uer", "uer+er_ace"),
        ("er_ace+mir+uer", "mir+uer+er_ace"),
        ("scr+mir", "mir+scr"),
    ],
)
def test_the_order_of_the_terms_does_not_matter(one, other):
    assert resolve(one) == resolve(other)


def test_what_gives_way_gives_way_once():
    assert resolve("er_ace+uer").scoring == resolve("uer").scoring
    for text in ("er_ace+uer+uer", "er_ace+uer+lucir", "uer+er_ace+lucir"):
        with pytest.raises(InputError, match="sets the slot 'scoring', which is already set"):
            resolve(text)


def test_a_name_that_is_taken_is_not_taken_again(monkeypatch):
    monkeypatch.setattr(registry, "_recipes", dict(registry._recipes))

    def uer():
        return resolve("er")

    with pytest.raises(InputError, match=r"There is already a method called 'uer', in evenhand.methods.uer\."):
        registry.register(cost=1)(uer)
    uer.__module__ = "evenhand.methods.uer"  # as a cell of a notebook that is run again
    registry.register(cost=1)(uer)
    assert resolve("uer") == resolve("er")


def test_finetune_twice_names_its_first_slot():
    with pytest.raises(InputError, match=r"finetune sets the slot 'retrieval'"):
        resolve("finetune+finetune")


def test_composition_takes_the_slots_of_both():
    both = resolve("finetune+uer(alpha=0.3)")
    assert both == resolve("uer(alpha=0.3)+finetune")
    assert both.changes(resolve("er")).keys() == {"retrieval", "storage", "scoring"}
    assert both.retrieval == resolve("finetune").retrieval
    assert both.scoring == resolve("uer(alpha=0.3)").scoring
    assert resolve("er+uer") == resolve("uer+er") == resolve("uer")
    assert resolve("pcr+er") == resolve("pcr")


def test_a_composed_method_learns(train):
    made = train("finetune+uer", batches=2)
    assert len(made.memory) == 0
    assert made.steps == 4


@pytest.mark.parametrize("name", NAMES)
def test_every_method_travels_as_json(name):
    method = resolve(name)
    back = Method.from_json(json.loads(json.dumps(method.to_json())))
    assert back == method
    assert hash(back) == hash(method)
    assert repr(back) == repr(method)


@pytest.mark.parametrize("name", NAMES)
def test_every_method_is_documented_and_has_a_cost(name):
    recipe = recipes()[name]
    assert recipe.title.endswith(".")
    assert registry.cost(name) > 0
    assert recipe.revision >= 1


def test_a_method_of_ones_own_is_found(monkeypatch):
    monkeypatch.setattr(registry, "_recipes", dict(registry._recipes))

    @registry.register(cost=2, revision=3)
    def mine(strength: float = 1.0) -> Method:
        """Mine."""
        return resolve("er")

    assert resolve("mine(strength=2)") == resolve("er")
    assert (recipes()["mine"].title, recipes()["mine"].cost, recipes()["mine"].revision) == ("Mine.", 2, 3)


def test_a_package_whose_methods_fail_to_load_is_a_warning(monkeypatch):
    class Broken:
        name = "theirs"

        def load(self):
            raise ImportError("no module named theirs")

    monkeypatch.setattr(registry, "entry_points", lambda group: [Broken()])
    registry._load.cache_clear()
    with pytest.warns(UserWarning, match=r"methods of 'theirs' could not be loaded: no module named theirs"):
        recipes()
    assert resolve("uer")
