import re
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import errors
from evenhand.experiment.grid import parse, read_grid
from evenhand.experiment.spec import Spec


@pytest.fixture
def grid(tmp_path):
    def write(text):
        path = tmp_path / "grid.toml"
        path.write_text(text)
        return read_grid(path)

    return write


def test_every_combination_once_and_seeds_innermost(grid):
    made = grid('root = "runs/x"\nmethods = ["er", "uer"]\nseeds = 2\nmemory = [20, 40]')
    assert [(s.method, s.memory, s.seed) for s in made.specs] == [
        (method, memory, seed) for method in ("er", "uer") for memory in (20, 40) for seed in (0, 1)
    ]
    assert str(made.root) == "runs/x"


def test_specs_are_those_of_the_command_line(grid):
    made = grid('method = "er"\ndata = "cifar100"\nseed = 3')
    assert made.specs == (Spec.make(method="er", data="cifar100", seed=3),)
    assert made.specs[0].augment == "scr"
    assert grid('method = "er"\npreset = "paper"').specs[0].views == "concat"
    assert grid('method = "er"\nseeds = [4, 7]').specs[1].seed == 7
    assert grid('method = "er"').root is None


def test_parts_are_grids_of_their_own_upon_the_common_values(grid):
    made = grid(
        'methods = ["er", "uer"]\nseeds = 2\nlr = 0.2\n'
        '[[part]]\nmemory = [20, 40]\n[[part]]\nmethod = "mir"\nseeds = 1\nlr = 0.1\n[[part]]\nmemory = 20'
    )
    shown = [(s.method, s.memory, s.seed, s.lr) for s in made.specs]
    assert len(shown) == len(set(shown)) == 9
    assert shown[-1] == ("mir", 200, 0, 0.1)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("methods = [", "is not valid TOML"),
        ("", "needs methods"),
        ('methods = ["er"', "is not valid TOML"),
        ('methods = "er"\nmemry = 3', "no field of a grid called 'memry'. Did you mean memory"),
        ('methods = "err"', "no method called 'err'. Did you mean"),
        ("methods = []", "axis 'methods' of a grid must have at least one value"),
        ('methods = "er"\nmethod = "uer"', "either 'methods' or 'method', not both"),
        ('method = "er"\nmethods = "uer"', "either 'methods' or 'method', not both"),
        (
            'methods = "er"\norder = {a = 1}',
            "A value of 'order' in a grid must be a string, a number or a boolean. Got",
        ),
        ('methods = "er"\ndata = [{a = 1}]', "A value of 'data' in a grid must be a string"),
        ('methods = "er"\nseeds = 0', "'seeds' must be a whole number in"),
        ('methods = "er"\nseeds = "x"', "'seeds' must be a whole number"),
        ('methods = "er"\nmemory = [[1]]', "A value of 'memory' in a grid must be"),
        ('methods = "er"\nmemory = -1', "'memory' of a run must be a whole number of at least 0"),
        ('methods = "er"\nroot = 3', "'root' of a grid must be a string"),
        ('[[part]]\nmethods = "er"\nroot = "a"', "The 'root' belongs at the top of a grid, not in a part"),
        ('methods = "er"\npart = 3', "'part' of a grid must be a table"),
        ('methods = "er"\npreset = ["paper"]', "'preset' of a grid must be one of"),
        ('methods = "er"\npreset = "papr"', "no preset called 'papr'. Did you mean paper"),
        ('methods = "er"\nseeds = 1000\nlr = [' + "0.1, " * 120 + "]", "at most 100000 runs. Got 120000"),
        ('methods = "er"\n[part]\nmemory = 3', "'part' of a grid must be a table"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_file(grid, text, sentence):
    with pytest.raises(errors.InputError, match=sentence) as caught:
        grid(text)
    assert "grid.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_root_may_be_in_the_home_directory(grid, monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    assert str(grid('methods = "er"\nroot = "~/runs"').root) == "/home/somebody/runs"


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path):
    (tmp_path / "marked.toml").write_bytes(b"\xef\xbb\xbfmethods = 'er'")
    assert [spec.method for spec in read_grid(tmp_path / "marked.toml").specs] == ["er"]


def test_a_file_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(errors.InputError, match="none.toml cannot be read: No such file"):
        read_grid(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(errors.InputError, match="bytes.toml is not valid TOML"):
        read_grid(tmp_path / "bytes.toml")
    (tmp_path / "deep.toml").write_text("x = " + "[" * 100_000)
    with pytest.raises(errors.InputError, match="deep.toml is not valid TOML"):
        read_grid(tmp_path / "deep.toml")


def test_the_grid_of_the_docs_is_one(grid):
    [text] = re.findall(r"```toml\n(.*?)```", (Path(__file__).parents[2] / "docs/scale.md").read_text(), re.DOTALL)
    assert len(grid(text).specs) == 3 * 3 * 3 + 3


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["er", "paper"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=6,
)
NAMES = st.sampled_from(["methods", "method", "seeds", "seed", "part", "root", "title", "preset", *Spec.model_fields])


@given(st.dictionaries(NAMES | st.text(string.ascii_lowercase, max_size=6), VALUES, max_size=6))
def test_any_content_is_a_grid_or_a_sentence(content):
    try:
        grid = parse({"methods": "er", **content})
    except errors.InputError:
        return
    assert grid.specs


@given(st.text(max_size=200))
def test_any_text_is_a_grid_or_a_sentence(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(errors.InputError):
        read_grid(path)
