import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand import resolve
from evenhand.core.registry import canonical, recipes
from evenhand.errors import InputError
from evenhand.names import parse, term

NAMES = sorted(recipes())
VALUES = st.one_of(
    st.integers(-3, 3),
    st.floats(-1, 2, allow_nan=False),
    st.sampled_from(["head", "neck", "x'\"\\"]),
    st.booleans(),
    st.none(),
)
CALLS = st.builds(
    lambda name, arguments: name + (f"({', '.join(f'{k}={v!r}' for k, v in arguments.items())})" if arguments else ""),
    st.sampled_from([*NAMES, "eur", "ER"]),
    st.dictionaries(st.sampled_from(["alpha", "couple", "beta"]), VALUES, max_size=2),
)
COMPOSED = st.lists(CALLS, min_size=1, max_size=3).map("+".join)
NAMES_AND_NUMBERS = ["er", "uer", "lucir", "alpha", "\u00e9", "\uff55er", "0.5", "1e999", "1_0", "0x", "9" * 60]
SIGNS = [*"+()=,'\"\\*[{#-. \n\0", "f'{", ":=", "((((((((((", "lambda:", "if", "await ", "\ud800"]
PIECES = st.sampled_from(NAMES_AND_NUMBERS + SIGNS)


@pytest.mark.parametrize("texts", [st.text(max_size=30), COMPOSED, st.lists(PIECES, max_size=12).map("".join)])
def test_no_text_raises_anything_but_an_input_error(texts):
    sentences = []

    @settings(max_examples=300)
    @given(texts)
    def ask(text):
        for function in (resolve, canonical, parse):
            try:
                function(text)
            except InputError as error:
                sentences.append(str(error))

    ask()
    assert len(set(sentences)) > 5
    assert all(sentence.endswith((".", "?")) for sentence in sentences)


NO_CALLS = [
    "uer(",
    "uer(0.3)",
    "uer(alpha)",
    "uer(*x)",
    "uer(**{})",
    "uer(alpha=er)",
    "uer(alpha=[1])",
    "uer(alpha=1+2)",
]
NO_NAMES = ["", " ", "+", "er+", "er-uer", "er.uer", "er()()", "1", "'er'", "er\nuer"]


@pytest.mark.parametrize(
    "text",
    [*NO_NAMES, *NO_CALLS, "(" * 300, "-" * 400 + "er", "-" * 9000 + "er", "er" + "+er" * 3000],
)
def test_a_text_that_is_no_name(text):
    with pytest.raises(InputError, match=r"A name must look like er, uer\(alpha=0\.3\) or mir\+uer\. Got "):
        resolve(text)


@pytest.mark.parametrize("value", [False, 3, ["er"]])
def test_what_is_no_text_is_no_name(value):
    with pytest.raises(InputError, match="A name must be a string. Got .* instead."):
        term("order", value, {"iid": None})


def test_strings_may_hold_a_colon():
    assert parse("mine:f(path='a:b')+er") == [("mine:f", {"path": "a:b"}), ("er", {})]


def test_a_long_name_is_read_and_one_that_is_too_long_says_so():
    words = ",".join(f"n{number:08d}" for number in range(100))
    assert parse(f"classes(sequence='{words}')") == [("classes", {"sequence": words})]
    with pytest.raises(InputError, match="A name must have at most 10000 characters. Got 10001"):
        parse("e" * 10_001)


def test_a_parameter_that_is_given_twice():
    with pytest.raises(InputError, match="alpha"):
        resolve("uer(alpha=0.3, alpha=0.9)")


@pytest.mark.parametrize("text", ["uer(beta=3)", "er(alpha=0.5)"])
def test_canonical_refuses_unknown_parameters(text):
    with pytest.raises(InputError, match=r"no parameter|takes no parameters"):
        canonical(text)


def test_equal_numbers_are_spelled_alike():
    assert canonical("uer(alpha=1)") == canonical("uer(alpha=1.0)")


def test_canonical_is_idempotent_or_refuses():
    try:
        once = canonical("uer(alpha=1e999)")
    except InputError:
        return
    assert canonical(once) == once


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
        ("uer(alpha=0.3)+mir", "mir+uer(alpha=0.3)"),
    ],
)
def test_canonical_spells_a_name_in_one_way(text, spelled):
    assert canonical(text) == spelled
    assert resolve(text) == resolve(spelled)
