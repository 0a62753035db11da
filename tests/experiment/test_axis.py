import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import errors
from evenhand.experiment.search.axis import Axis


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("alpha=0.1:0.9", (0.1, 0.3, 0.5, 0.7, 0.9)),
        ("alpha=0:1", (0.0, 0.25, 0.5, 0.75, 1.0)),
        (" alpha = 0 : 1 : 3 ", (0.0, 0.5, 1.0)),
        ("alpha=0:1.0:3", (0.0, 0.5, 1.0)),
        ("lr=0.001:0.1:3:log", (0.001, 0.01, 0.1)),
        ("lr=0.0001:1:log", (0.0001, 0.001, 0.01, 0.1, 1.0)),
        ("lr=1e-12:1e-8:3:log", (1e-12, 1e-10, 1e-8)),
        ("lr=5e-324:1e15:2:log", (5e-324, 1e15)),
        ("lr=1:100:3:log", (1.0, 10.0, 100.0)),
        ("x=0.12345678:0.5:2", (0.12345678, 0.5)),  # the ends are never rounded out of the range
        ("x=1.0000001:1.0000002", (1.0000001, 1.0000002)),
        ("candidates=25,50", (25, 50)),
        ("lr=0.1", (0.1,)),
        ("lr=0.1, 1e-2 ,0.1", (0.1, 0.01)),
        ("neck=true,False", (True, False)),
        ("augment=none,scr", ("none", "scr")),
        ("backbone=mlp(hidden=8, depth=2),small_cnn", ("mlp(hidden=8, depth=2)", "small_cnn")),
    ],
)
def test_axes(text, values):
    axis = Axis.parse(text)
    assert axis.values == values
    assert [type(value) for value in axis.values] == [type(value) for value in values]
    assert axis.name == text.partition("=")[0].strip()
    assert (axis.low is None) == (":" not in text)
    assert axis.log == ("log" in text)
    assert axis.whole == all(type(value) is int for value in values)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("replay=1:3:9", (1, 2, 3)),
        ("replay=1:9", (1, 3, 5, 7, 9)),
        ("replay=1e1:2e1:3", (10, 15, 20)),
        ("candidates=10:1000:3:log", (10, 100, 1000)),
        ("memory=1000000:1000010:11", tuple(range(1000000, 1000011))),
        ("x=-2:2", (-2, -1, 0, 1, 2)),
    ],
)
def test_a_range_in_whole_numbers(text, values):
    axis = Axis.parse(text).as_whole()
    assert axis.values == values
    assert axis.whole
    assert (axis.low, axis.high) == (values[0], values[-1])
    assert {type(end) for end in (axis.low, axis.high, *axis.values)} == {int}


@pytest.mark.parametrize("text", ["replay=1.5:3", "replay=1:2.5:2", "replay=5,10", "lr=0.1,1.0", "augment=none,scr"])
def test_what_is_no_range_of_whole_numbers_stays_as_it_is(text):
    assert Axis.parse(text).as_whole() == Axis.parse(text)


@pytest.mark.parametrize(("text", "count"), [("a=0:1", None), ("a=1:2:log", None), ("a=0:1:5", 5), ("a=1:2:7:log", 7)])
def test_an_axis_knows_whether_it_was_told_how_many_points(text, count):
    assert Axis.parse(text).count == count


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "A --field must look like alpha=0.1:0.9 or replay=5,10,20. Got '' instead."),
        ("alpha", "A --field must look like"),
        ("=1,2", "A --field must look like"),
        ("alpha=", "A --field must look like"),
        ("alpha=1,,2", "The values of a --field must be separated by single commas"),
        ("alpha=,", "The values of a --field must be separated by single commas"),
        ("alpha=0.1:", "The range of a --field must look like LOW:HIGH, LOW:HIGH:COUNT or LOW:HIGH:log"),
        ("alpha=a:b", "must look like LOW:HIGH"),
        ("alpha=nan:1", "must look like LOW:HIGH"),
        ("alpha=0:inf", "must look like LOW:HIGH"),
        ("alpha=true:2", "must look like LOW:HIGH"),
        ("alpha=0:1" + "0" * 400, "must look like LOW:HIGH"),
        ("alpha=0:1:log:3", "must look like LOW:HIGH"),
        ("alpha=0:1:3:4:log", "must look like LOW:HIGH"),
        ("alpha=0.9:0.1", "The range of a --field must have LOW < HIGH. Got 'alpha=0.9:0.1' instead."),
        ("alpha=1:1", "must have LOW < HIGH."),
        ("alpha=0:1:log", "must have 0 < LOW < HIGH."),
        ("alpha=0:1:1", "The number of points of 'alpha' must be a whole number in [2, 1000]. Got 1 instead."),
        ("alpha=0:1:2.5", "must be a whole number in [2, 1000]. Got 2.5"),
        ("alpha=0:1:", "must be a whole number in [2, 1000]. Got ''"),
        ("alpha=0:1:1001", "must be a whole number in [2, 1000]"),
    ],
)
def test_a_wrong_axis_is_one_sentence(text, sentence):
    with pytest.raises(errors.InputError) as caught:
        Axis.parse(text)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def check_axis(text):
    try:
        axis = Axis.parse(text)
    except errors.InputError:
        return
    for made in (axis, axis.as_whole()):
        assert made.values
        assert len(set(made.values)) == len(made.values)
        if made.low is not None:
            assert made.values[0] == made.low
            assert made.values[-1] == made.high
            assert all(one < other for one, other in zip(made.values, made.values[1:], strict=False))


@given(st.text() | st.text("a=:.,-+e_019lognift٣²ru() \n", max_size=30).map("a=".__add__))
def test_any_text_is_an_axis_or_a_sentence(text):
    check_axis(text)


NUMBERS = st.one_of(st.integers(), st.floats(), st.integers(-5, 5), st.sampled_from([10**14, 10**400, 5e-324, 1e308]))


@given(NUMBERS, NUMBERS, st.integers(0, 30), st.booleans())
def test_any_range_goes_from_end_to_end(low, high, count, log):
    check_axis(f"a={low}:{high}:{count}{':log' * log}")
