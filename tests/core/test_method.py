import pytest

from evenhand import Batch, Method, Mix, Scoring, resolve
from evenhand.core import parts
from evenhand.core.method import SLOTS
from evenhand.errors import InputError


def test_the_slots_are_called_in_the_order_of_algorithm_1():
    called = []

    def slot(name, result=None):
        def answer(*given):
            called.append((name, given[1:]))
            return result

        return answer

    class Learner:
        iterations = 2

    class Losses:
        keep = {"logits": "kept"}  # noqa: RUF012

    losses, batch = Losses(), Batch("x", "y", extra={"age": 1})
    method = Method(
        slot("retrieval", "replay"),
        slot("objective", losses),
        None,
        slot("update"),
        slot("storage"),
        slot("prediction"),
        slot("weights"),
    )
    method.step(Learner(), batch)
    once = [("retrieval", (batch,)), ("objective", (batch, "replay")), ("update", (losses,))]
    assert called[:-1] == once * 2
    name, (stored,) = called[-1]
    assert name == "storage"
    assert stored.extra == {"age": 1, "logits": "kept"}


def test_but_replaces_slots_and_leaves_the_original():
    er = resolve("er")
    changed = er.but(scoring=Scoring(Mix(cos=1), Mix(dot=1), "dot"))
    assert changed.changes(er).keys() == {"scoring"}
    assert er == resolve("er")
    with pytest.raises(InputError, match=r"There is no slot of a method called 'scorin'\. Did you mean scoring\?"):
        er.but(scorin=None)


def test_methods_are_values():
    assert resolve("uer") == resolve("uer(alpha=0.5)")
    assert len({resolve("uer"), resolve("uer(alpha=0.5)"), resolve("uer(alpha=0.4)"), resolve("er")}) == 3
    with pytest.raises(AttributeError):
        resolve("er").scoring = None


@pytest.mark.parametrize("change", [lambda j: j.pop("update"), lambda j: j.update(more=1)])
def test_json_with_other_slots_is_refused(change):
    made = resolve("er").to_json()
    change(made)
    with pytest.raises(InputError, match=f"A method must have the slots {', '.join(SLOTS)}"):
        Method.from_json(made)


def test_json_with_other_fields_is_refused():
    made = resolve("uer").to_json()
    made["scoring"]["beta"] = 1
    with pytest.raises(InputError, match=r"fields of the part evenhand\.scoring\.Scoring do not fit: .*beta"):
        Method.from_json(made)


def test_json_with_bad_values_is_refused():
    made = resolve("uer").to_json()
    made["scoring"]["replay"]["dot"] = -1
    with pytest.raises(InputError, match=r"weight of 'dot' in a scoring must be a number of at least 0\. Got -1"):
        Method.from_json(made)


def test_a_part_with_a_field_that_json_cannot_hold():
    @parts.part("tests.Odd")
    class Odd:
        value: object

    assert parts.from_json(parts.to_json(Odd(3))) == Odd(3)
    with pytest.raises(InputError, match=r"Every field of a method must be a number, a string, .* Got \[3\] instead"):
        parts.to_json(Odd([3]))


def test_a_part_keeps_its_id_when_its_class_gets_another_name():
    @parts.part("tests.Old")
    class New:
        value: int

    assert parts.to_json(New(3)) == {"part": "tests.Old", "value": 3}
    assert parts.from_json({"part": "tests.Old", "value": 3}) == New(3)


def test_two_parts_cannot_share_an_id():
    def define():
        @parts.part("tests.Twice")
        class First:
            pass

        return First

    define()
    define()  # a notebook cell that runs again defines its part again
    with pytest.raises(InputError, match=r"The part id 'tests\.Twice' already belongs to .*First\."):

        @parts.part("tests.Twice")
        class Second:
            pass


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Mix(), r"A mix of logits must give 'dot' or 'cos' a weight above 0"),
        (lambda: Mix(dot=-1, cos=2), r"weight of 'dot' in a scoring must be a number of at least 0\. Got -1"),
        (lambda: Mix(cos="1"), r"weight of 'cos' in a scoring must be a number of at least 0\. Got '1'"),
        (
            lambda: Scoring(Mix(dot=1), Mix(dot=1), "tan"),
            r"'test' form of a scoring must be one of dot, cos\. Got 'tan'",
        ),
        (
            lambda: Scoring(Mix(dot=1), Mix(dot=1), "dot", "hand"),
            r"'couple' field .* one of head, neck, both\. Got 'hand'",
        ),
    ],
)
def test_a_scoring_that_cannot_be(make, sentence):
    with pytest.raises(InputError, match=sentence):
        make()


def test_a_mix_names_the_forms_that_count():
    assert list(Mix(dot=1)) == [("dot", 1)]
    assert list(Mix(cos=2)) == [("cos", 2)]
    assert list(Mix(dot=0.3, cos=0.7)) == [("dot", 0.3), ("cos", 0.7)]
