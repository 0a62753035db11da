from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import errors
from evenhand.paper import definitions, find, items
from evenhand.paper.definitions import narrow, parse, read
from evenhand.paper.findings import parse as parse_findings

OWN = {"title": "Own", "methods": ["er", "uer"], "memory": [20, 40], "seeds": 2}
TIMED = {"title": "Own", "source": "bench", "methods": ["er", "uer"]}


def expecting(**entry):
    return {**OWN, "expected": [{"method": "er", "accuracy": 50.0, "memory": 20, **entry}]}


def test_an_entry_with_lists_is_a_row_for_each_place():
    item = parse(expecting(memory=[20, 40], accuracy=[50, 60.5], interval=[1, 2]), "own")
    assert [(one.fields["memory"], one.numbers, one.interval) for one in item.expected] == [
        (20, {"accuracy": 50.0}, 1.0),
        (40, {"accuracy": 60.5}, 2.0),
    ]
    assert item.published(item.specs[0]) is item.expected[0]
    assert item.published(item.specs[-1]) is None


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({**OWN, "title": ""}, "needs a title"),
        ({**OWN, "title": 3}, "The 'title' of a definition must be a text. Got 3"),
        ({**OWN, "kind": "picture"}, "'kind' of a definition must be one of table, figure. Got 'picture'"),
        ({**OWN, "kind": "figure"}, "A figure says what it 'draws'"),
        ({**OWN, "draws": "stages"}, "a table does not"),
        ({**OWN, "source": "web"}, "'source' of a definition must be one of runs, bench"),
        ({**OWN, "source": "bench"}, "times steps with data = cifar100, memory = 1000, whatever 'memory' says"),
        ({**TIMED, "memory": 200}, "whatever 'memory' says. Leave it out."),
        ({**TIMED, "seeds": 3}, "whatever 'seeds' says. Leave it out."),
        ({**OWN, "memry": 3}, "no field of a grid called 'memry'"),
        ({"title": "Own"}, "needs methods"),
        ({**OWN, "expected": 3}, r"must be tables \[\[expected\]\]. Got 3"),
        ({**OWN, "expected": [3]}, r"must be tables \[\[expected\]\]"),
        ({**OWN, "expected": [{"accuracy": 3}]}, "'method' of an expected row must be the name of a method. Got None"),
        (expecting(method="err"), "no method called 'err'"),
        (expecting(acuracy=3), "no field of an expected row called 'acuracy'. Did you mean accuracy"),
        (expecting(seed=3), "no field of an expected row called 'seed'"),
        (expecting(accuracy="3"), "'accuracy' of an expected row must be a number. Got '3'"),
        (expecting(name=3), "'name' of an expected row must be a text"),
        (expecting(interval=0), "'interval' of an expected row must be above 0, beside an accuracy"),
        (
            expecting(memory=[20, 40], accuracy=[1, 2, 3]),
            r"lists of an expected row must have one length. Got \[2, 3\]",
        ),
        (expecting(memory=[]), "lists of an expected row must have one length"),
        (expecting(memory=30), r"row ER \(method er, memory 30\) must fit one setting of the runs. Got '0 settings'"),
        ({**OWN, "expected": [{"method": "er", "accuracy": 3}]}, "must fit one setting of the runs. Got '2 settings'"),
        ({**OWN, "expected": 2 * expecting()["expected"]}, "fit the same setting"),
        ({**OWN, "expected": [{"method": "er", "memory": 20}]}, "row ER has no number"),
        ({**OWN, "expected": [{"method": "uer", "memory": 20, "seconds": 3}]}, "need those of er"),
        ({**OWN, "time": 3}, r"must be a table \[time\]"),
        ({**OWN, "time": {"mesured": {}}}, "no field of a definition's time called 'mesured'. Did you mean measured"),
        ({**OWN, "time": {"measured": {"cifar10": -1}}}, "minutes of cifar10 must be a number of at least 0"),
        ({**OWN, "time": {"measured": 3}}, "must be minutes by dataset"),
        ({**OWN, "time": {"hardware": 3}}, "'hardware' of a definition's time must be a text"),
        ({**OWN, "time": {"side_by_side": 0}}, "'side_by_side' of a definition's time must be a whole number"),
    ],
)
def test_a_mistake_is_one_sentence(content, sentence):
    with pytest.raises(errors.InputError, match=sentence):
        parse(content, "own")


def test_steps_have_the_setting_in_which_they_are_timed():
    assert {(spec.data, spec.memory) for spec in parse(TIMED, "own").specs} == {("cifar100", 1000)}


def test_a_mistake_in_a_file_is_told_with_its_name(tmp_path):
    path = tmp_path / "own.toml"
    for content, sentence in (
        ("title = [", r"own.toml is no TOML"),
        ('title = "Own"', r"In the definition .*own.toml: A grid needs methods"),
    ):
        path.write_text(content)
        with pytest.raises(errors.InputError, match=sentence):
            read(path)
    with pytest.raises(errors.InputError, match="cannot be read: No such file"):
        find("nowhere.toml")
    with pytest.raises(errors.InputError, match="no table or figure called 'tabel2'. Did you mean table"):
        find("tabel2")


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
        item = parse({**OWN, **content, "expected": expected}, "own")
        assert item.specs
        assert all(sum(one.fits(spec) for spec in item.settings()) == 1 for one in item.expected)


@given(st.dictionaries(st.sampled_from(["finding", "x"]), VALUES | st.lists(ENTRY, max_size=2)))
def test_whatever_a_list_of_findings_holds_it_is_read_or_refused(content):
    with suppress(errors.InputError):
        assert all(finding.method for finding in parse_findings(content))


def test_narrowing_leaves_what_was_asked_for_and_its_numbers():
    item = find("table2")
    small = narrow(item, 2, ["cifar100"], [1000], ["er", "uer", "finetune", "iid++"])
    rows = {("er", "classes"), ("uer", "classes"), ("finetune", "classes"), ("er", "iid++")}
    assert {(s.method, s.order, s.seed) for s in small.specs} == {(*row, seed) for row in rows for seed in (0, 1)}
    assert [one.name for one in small.expected] == ["IID++", "FINE-TUNE", "ER", "UER"]
    few = narrow(item, memory=[500], methods=["finetune", "er", "iid"])
    assert {one.name for one in few.expected} == {"IID", "FINE-TUNE", "ER"}
    assert {s.seed for s in narrow(item, seeds=12).specs} == set(range(12))
    assert narrow(item) == item


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"datasets": ["mnist"]}, "data of scale must be one of cifar100. Got 'mnist'"),
        ({"memory": [7]}, "memory of scale must be one of 1000. Got 7"),
        ({"methods": ["er"]}, "method of scale must be one of uer"),
        ({"methods": ["err"]}, "no method called 'err'"),
        ({"seeds": 0}, "number of --seeds must be a whole number in"),
    ],
)
def test_narrowing_by_what_is_not_there_is_one_sentence(options, sentence):
    with pytest.raises(errors.InputError, match=sentence):
        narrow(find("scale"), **options)


def test_sizes_and_methods_are_those_of_the_chosen_datasets():
    item = find("table2")
    with pytest.raises(errors.InputError, match="memory of table2 must be one of 100, 200, 500, 1000. Got 5000"):
        narrow(item, datasets=["cifar10"], memory=[5000])
    both = narrow(item, 1, ["cifar10", "cifar100"], [1000], ["aser"])
    assert {(spec.data, spec.method) for spec in both.specs} == {("cifar10", "aser(n=9)"), ("cifar100", "aser")}
    assert {spec.method for spec in narrow(find("improvement"), methods=["aser+uer"]).specs} == {
        "aser+uer", "aser(n=3)+uer",
    }  # fmt: skip
    assert {spec.method for spec in narrow(find("scale"), methods=["uer"]).specs} == {"uer"}


def test_time_is_that_of_the_runs_by_their_cost():
    item = find("scale")
    assert item.times.hours(item.specs[:6]) == pytest.approx(6 * 19 / 60 / 2)
    mir = find("improvement")
    plain = [spec for spec in mir.specs if spec.method == "mir" and spec.data == "cifar100"]
    assert mir.times.hours(plain) == pytest.approx(10 * 19 * 3.1667 / 60 / 2, rel=1e-3)
    assert parse(OWN, "own").times.hours(parse(OWN, "own").specs) is None


def test_all_items_are_there_in_the_paper_s_order():
    assert [item.slug for item in items()] == list(definitions.SLUGS)
    files = {path.stem for path in definitions.folder().glob("*.toml")}
    assert files == {*definitions.SLUGS, "findings"}
