import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import Method, registry, resolve
from evenhand.errors import InputError
from evenhand.registry import canonical, parse, recipes

NAMES = sorted(recipes())
VALUES = st.one_of(
    st.integers(-3, 3), st.floats(-1, 2, allow_nan=False), st.sampled_from(["head", "neck", "x'\"\\"]), st.booleans(), st.none()
)
CALLS = st.builds(
    lambda name, arguments: name + (f"({', '.join(f'{k}={v!r}' for k, v in arguments.items())})" if arguments else ""),
    st.sampled_from([*NAMES, "eur", "ER"]),
    st.dictionaries(st.sampled_from(["alpha", "couple", "beta"]), VALUES, max_size=2),
)
COMPOSED = st.lists(CALLS, min_size=1, max_size=3).map("+".join)
PIECES = st.sampled_from(
    ["er", "uer", "lucir", "alpha", "+", "(", ")", "=", ",", " ", "0.5", "1e999", "'", '"', "\\", "\n", "\0", "*", "lambda:",
     "[", "{", "f'{", "#", "-", ".", "\ud800", "é", "ｕer", "1_0", "0x", "if", "await ", "9" * 60, "((((((((((", ":="]
)  # fmt: skip


@pytest.mark.parametrize("texts", [st.text(max_size=30), COMPOSED, st.lists(PIECES, max_size=12).map("".join)])
def test_no_text_raises_anything_but_an_input_error(texts):
    @given(texts)
    def ask(text):
        for function in (resolve, canonical, parse):
            try:
                function(text)
            except InputError as error:
                assert str(error).endswith((".", "?"))

    ask()


@pytest.mark.parametrize(
    "text",
    ["", " ", "+", "er+", "uer(", "uer(0.3)", "uer(alpha)", "uer(*x)", "uer(**{})", "uer(alpha=er)", "uer(alpha=[1])"]
    + ["uer(alpha=1+2)", "er-uer", "er.uer", "er()()", "'er'", "1", "er\nuer", "(" * 300, "er" + "+er" * 400, "-" * 400 + "er"],
)
def test_a_text_that_is_no_name(text):
    with pytest.raises(InputError, match=r"A name must look like er, uer\(alpha=0\.3\) or mir\+uer\. Got "):
        resolve(text)


def test_names_run_no_code():
    with pytest.raises(InputError, match="must look like"):
        resolve("uer(alpha=__import__('os').getpid())")


@given(COMPOSED)
def test_canonical_is_idempotent(text):
    try:
        once = canonical(text)
    except InputError:
        return
    assert canonical(once) == once


@given(COMPOSED)
def test_canonical_means_the_same(text):
    try:
        method = resolve(text)
    except InputError:
        return
    assert resolve(canonical(text)) == method


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("uer", "uer"),
        ("uer()", "uer"),
        (" uer( alpha = 0.5 ) ", "uer"),
        ("uer(couple='head')", "uer"),
        ("uer(couple='both', alpha=0.3)", "uer(alpha=0.3, couple='both')"),
        ('uer(couple="neck")', "uer(couple='neck')"),
        ("finetune + uer(alpha=0.5)", "finetune+uer"),
        ("(er)", "er"),
    ],
)
def test_canonical_spells_a_name_in_one_way(text, spelled):
    assert canonical(text) == spelled
    assert resolve(text) == resolve(spelled)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("ure", "There is no method called 'ure'. Did you mean"),
        ("UER", "There is no method called 'UER'. Did you mean uer"),
        ("lucri", "Did you mean lucir?"),
        ("fine_tune", "Did you mean finetune?"),
        ("qqqqqqqq", "Known are: er, "),
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
    with pytest.raises(InputError, match=r"cannot be composed: (uer|lucir) sets the slot 'scoring', which is already set"):
        resolve(text)


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
    assert recipe.cost > 0
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
