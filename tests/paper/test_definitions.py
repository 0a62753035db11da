from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import errors
from evenhand.paper import all_items, definitions, load_item, select
from evenhand.paper.definitions import parse_definition

OWN = {"title": "Own", "methods": ["er", "uer"], "memory": [20, 40], "seeds": 2}
TIMED = {"title": "Own", "source": "bench", "methods": ["er", "uer"]}


def expecting(**entry):
    return {**OWN, "expected": [{"method": "er", "accuracy": 50.0, "memory": 20, **entry}]}


def test_an_entry_with_lists_is_a_row_for_each_place():
    item = parse_definition(expecting(memory=[20, 40], accuracy=[50, 60.5], interval=[1, 2]), "own")
    assert [(one.fields["memory"], one.numbers, one.interval) for one in item.published] == [
        (20, {"accuracy": 50.0}, 1.0),
        (40, {"accuracy": 60.5}, 2.0),
    ]
    assert item.published_for(item.specs[0]) is item.published[0]
    assert item.published_for(item.specs[-1]) is None


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({key: value for key, value in OWN.items() if key != "title"}, "The 'title' of a definition is missing."),
        ({**OWN, "title": ""}, "The 'title' of a definition must have at least 1 character. Got '' instead."),
        ({**OWN, "title": 3}, "The 'title' of a definition must be a string. Got 3"),
        ({**OWN, "kind": "picture"}, "'kind' of a definition must be table or figure. Got 'picture'"),
        ({**OWN, "kind": "figure"}, "A figure needs 'draws': stages, improvement"),
        ({**OWN, "draws": "stages"}, "a table must not have it"),
        ({**OWN, "source": "web"}, "'source' of a definition must be runs or bench"),
        (
            {**TIMED, "memory": 200},
            "measures steps with data = cifar100, memory = 1000. Remove 'memory'",
        ),
        ({**TIMED, "seeds": 3}, "Remove 'seeds'"),
        ({**OWN, "memry": 3}, "no field of a grid called 'memry'"),
        ({"title": "Own"}, "needs methods"),
        ({**OWN, "expected": 3}, r"must be tables \[\[expected\]\]. Got 3"),
        ({**OWN, "expected": [3]}, r"must be tables \[\[expected\]\]"),
        ({**OWN, "expected": [{"accuracy": 3}]}, "'method' of an expected row must be a string. Got None"),
        (expecting(method="err"), "no method called 'err'"),
        (expecting(acuracy=3), "no field of an expected row called 'acuracy'. Did you mean accuracy"),
        (expecting(seed=3), "no field of an expected row called 'seed'"),
        (expecting(accuracy="3"), "'accuracy' of an expected row must be a number. Got '3'"),
        (expecting(accuracy=10**400), "'accuracy' of an expected row must be a number. Got 1000"),
        (expecting(interval=10**400), "'interval' of an expected row must be a number. Got 1000"),
        (expecting(name=3), "'name' of an expected row must be a string. Got 3"),
        (expecting(interval=0), "'interval' of an expected row must be greater than 0. Got 0"),
        (
            {**OWN, "expected": [{"method": "er", "memory": 20, "current": 3, "interval": 1}]},
            r"row ER \(method er, memory 20\) has an 'interval', but no 'accuracy'",
        ),
        (expecting(memory=[20, 40], accuracy=[1, 2, 3]), r"must have the same length, at least 1. Got \[2, 3\]"),
        (expecting(memory=[]), "lists of an expected row must have the same length"),
        (expecting(memory=30), r"row ER \(method er, memory 30\) must match one setting of the runs. It matches 0."),
        ({**OWN, "expected": [{"method": "er", "accuracy": 3}]}, "must match one setting of the runs. It matches 2."),
        ({**OWN, "expected": 2 * expecting()["expected"]}, "match the same setting"),
        ({**OWN, "expected": [{"method": "er", "memory": 20}]}, r"row ER \(method er, memory 20\) has no number"),
        ({**OWN, "expected": [{"method": "uer", "memory": 20, "seconds": 3}]}, "need a row of er"),
        ({**OWN, "time": 3}, "'time' of a definition must be a table. Got 3"),
        (
            {**OWN, "time": {"mesured": {}}},
            "no field of a definition called 'time.mesured'. Did you mean",
        ),
        (
            {**OWN, "time": {"measured": {"cifar10": -1}}},
            "'time.measured.cifar10' of a definition must be greater",
        ),
        ({**OWN, "time": {"measured": 3}}, "'time.measured' of a definition must be a table. Got 3"),
        ({**OWN, "time": {"hardware": 3}}, "'time.hardware' of a definition must be a string"),
        (
            {**OWN, "time": {"side_by_side": 0}},
            "'time.side_by_side' of a definition must be greater than or equal",
        ),
    ],
)
def test_a_mistake_is_one_sentence(content, sentence):
    with pytest.raises(errors.InputError, match=sentence):
        parse_definition(content, "own")


def test_steps_have_the_setting_in_which_they_are_timed():
    assert {(spec.data, spec.memory) for spec in parse_definition(TIMED, "own").specs} == {("cifar100", 1000)}


def test_a_mistake_in_a_file_is_told_with_its_name(tmp_path):
    path = tmp_path / "own.toml"
    for content, sentence in (
        ("title = [", r"own.toml is not valid TOML"),
        ('title = "Own"', r"In the definition .*own.toml: A grid needs methods"),
    ):
        path.write_text(content)
        with pytest.raises(errors.InputError, match=sentence):
            load_item(str(path))
    with pytest.raises(errors.InputError, match="cannot be read: No such file"):
        load_item("nowhere.toml")
    with pytest.raises(errors.InputError, match="no table or figure called 'tabel2'. Did you mean table"):
        load_item("tabel2")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 300)
    | st.floats()
    | st.sampled_from(["er", "uer", "cifar100", "iid", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["method", "accuracy", "a"]), inner),
    max_leaves=6,
)
ENTRY = st.dictionaries(
    st.sampled_from(["method", "name", "accuracy", "interval", "memory", "data", "seconds"]), VALUES
)
KEYS = ["title", "kind", "draws", "source", "note", "time", "methods", "memory", "seeds", "part", "root", "preset", "x"]


@given(st.dictionaries(st.sampled_from(KEYS), VALUES), st.lists(ENTRY, max_size=3) | VALUES)
def test_whatever_a_definition_holds_it_is_read_or_refused(content, expected):
    with suppress(errors.InputError):  # any other error is a fault of ours
        item = parse_definition({**OWN, **content, "expected": expected}, "own")
        assert item.specs
        assert all(sum(one.matches(spec) for spec in item.settings()) == 1 for one in item.published)


def test_narrowing_leaves_what_was_asked_for_and_its_numbers():
    item = load_item("table2")
    small = select(item, 2, ["cifar100"], [1000], ["er", "uer", "finetune", "iid++"])
    rows = {("er", "classes"), ("uer", "classes"), ("finetune", "classes(sequence='natural')"), ("er", "iid++")}
    assert {(s.method, s.order, s.seed) for s in small.specs} == {(*row, seed) for row in rows for seed in (0, 1)}
    assert {row.published.title for row in small.rows()} == {"IID++", "FINE-TUNE", "ER", "UER"}
    few = select(item, memory=[500], methods=["finetune", "er", "iid"])
    assert {row.published.title for row in few.rows()} == {"IID", "FINE-TUNE", "ER"}
    assert {s.seed for s in select(item, seeds=12).specs} == set(range(12))
    assert select(item) == item


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"datasets": ["mnist"]}, "The --datasets of scale must be among cifar100. Got 'mnist'"),
        ({"memory": [7]}, "The --memory of scale must be among 1000. Got 7"),
        ({"methods": ["er"]}, "The --methods of scale must be among uer"),
        ({"methods": ["err"]}, "no method called 'err'"),
        ({"seeds": 0}, "number of --seeds must be a whole number in"),
    ],
)
def test_narrowing_by_what_is_not_there_is_one_sentence(options, sentence):
    with pytest.raises(errors.InputError, match=sentence):
        select(load_item("scale"), **options)


def test_sizes_and_methods_are_those_of_the_chosen_datasets():
    item = load_item("table2")
    with pytest.raises(errors.InputError, match="The --memory of table2 must be among 100, 200, 500, 1000. Got 5000"):
        select(item, datasets=["cifar10"], memory=[5000])
    both = select(item, 1, ["cifar10", "cifar100"], [1000], ["aser"])
    assert {(spec.data, spec.method) for spec in both.specs} == {("cifar10", "aser(n=9)"), ("cifar100", "aser")}
    assert {spec.method for spec in select(load_item("improvement"), methods=["aser+uer"]).specs} == {
        "aser+uer", "aser(n=3)+uer",
    }  # fmt: skip
    assert {spec.method for spec in select(load_item("scale"), methods=["uer"]).specs} == {"uer"}


def test_time_is_that_of_the_runs_by_their_cost():
    item = load_item("scale")
    assert item.time.hours(item.specs[:6]) == pytest.approx(6 * 19 / 60 / 2)
    mir = load_item("improvement")
    plain = [spec for spec in mir.specs if spec.method == "mir" and spec.data == "cifar100"]
    assert mir.time.hours(plain) == pytest.approx(10 * 19 * 280 / 120 / 60 / 2)
    assert parse_definition(OWN, "own").time.hours(parse_definition(OWN, "own").specs) is None


def test_all_items_are_there_in_the_paper_s_order():
    assert [item.slug for item in all_items()] == list(definitions.SLUGS)
    files = {path.stem for path in definitions.definitions_folder().glob("*.toml")}
    assert files == set(definitions.SLUGS)
