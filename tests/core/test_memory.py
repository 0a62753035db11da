import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenhand import Batch, Memory
from evenhand.core.memory import Past
from evenhand.errors import InputError
from reference.memory import Slots


def batch(values, classes, **extra):
    x = torch.tensor(values, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 2, 2)
    return Batch(x, torch.tensor(classes, dtype=torch.int64), extra=extra)


@st.composite
def histories(draw):
    """A size, and writes to different slots each, of which the first ones are always filled first."""
    size = draw(st.integers(1, 12))
    writes, filled = [], 0
    for _ in range(draw(st.integers(0, 6))):
        old = draw(st.lists(st.integers(0, filled - 1), unique=True)) if filled else []
        new = list(range(filled, filled + draw(st.integers(0, size - filled))))
        slots = draw(st.permutations(old + new))
        filled += len(new)
        samples = [(draw(st.integers(0, 255)), draw(st.integers(0, 4))) for _ in slots]
        writes.append((slots, samples))
    return size, writes


@given(histories())
def test_it_holds_what_a_dict_would_hold(history):
    size, writes = history
    memory, model = Memory(size), Slots(size)
    for slots, samples in writes:
        memory.write(torch.tensor(slots, dtype=torch.int64), batch(*zip(*samples, strict=True)) if samples else None)
        model.write(slots, samples)
        assert len(memory) == len(model.held)
        assert memory.counts() == model.counts()
        if model.held:
            read = memory.read(torch.arange(len(memory)))
            pixels = read.x.flatten(1)
            assert [(int(p[0]), int(y)) for p, y in zip(pixels, read.y, strict=True)] == [
                model.held[slot] for slot in sorted(model.held)
            ]
            assert (pixels == pixels[:, :1]).all()


@given(histories())
def test_its_state_makes_an_equal_memory(history):
    size, writes = history
    memory = Memory(size)
    for slots, samples in writes:
        memory.offered += len(samples)
        memory.write(torch.tensor(slots, dtype=torch.int64), batch(*zip(*samples, strict=True)) if samples else None)
    copy = Memory(size)
    copy.load_state_dict(memory.state_dict())
    assert (copy.filled, copy.offered, copy.counts()) == (memory.filled, memory.offered, memory.counts())
    assert copy.columns.keys() == memory.columns.keys()
    for name, column in memory.columns.items():
        assert copy.columns[name].dtype == column.dtype
        assert torch.equal(copy.columns[name], column)


def test_a_state_is_a_copy():
    memory = Memory(2)
    memory.write(torch.tensor([0]), batch([7], [1]))
    state = memory.state_dict()
    memory.write(torch.tensor([0]), batch([9], [2]))
    assert state["x"].unique().tolist() == [7]
    assert state["y"].tolist() == [1]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_samples_keep_their_type_and_shape(dtype):
    memory = Memory(5)
    x = torch.arange(24).view(2, 3, 2, 2).to(dtype)
    memory.write(torch.tensor([0, 1]), Batch(x, torch.tensor([3, 4])))
    read = memory.read(torch.tensor([1, 0]))
    assert memory.columns["x"].dtype == read.x.dtype == dtype
    assert memory.columns["x"].shape == (5, 3, 2, 2)
    assert torch.equal(read.x, x[[1, 0]])
    assert read.y.tolist() == [4, 3]
    assert read.slots.tolist() == [1, 0]


def test_what_is_read_is_a_copy():
    memory = Memory(1)
    memory.write(torch.tensor([0]), batch([7], [1]))
    memory.read(torch.tensor([0])).x.zero_()
    assert memory.read(torch.tensor([0])).x.unique().tolist() == [7]


def test_what_was_written_may_change_afterwards():
    memory, x = Memory(1), torch.full((1, 3), 5.0)
    memory.write(torch.tensor([0]), Batch(x, torch.tensor([0])))
    x.zero_()
    assert memory.read(torch.tensor([0])).x.tolist() == [[5.0] * 3]


def test_further_columns_come_back_with_their_samples():
    memory = Memory(4)
    memory.write(torch.tensor([0, 1]), batch([1, 2], [0, 1], logits=torch.tensor([[0.5, 1.5], [2.5, 3.5]])))
    memory.write(torch.tensor([0]), batch([3], [1], logits=torch.tensor([[9.0, 8.0]])))
    assert memory.read(torch.tensor([1, 0])).extra["logits"].tolist() == [[2.5, 3.5], [9.0, 8.0]]
    copy = Memory(4)
    copy.load_state_dict(memory.state_dict())
    assert copy.read(torch.tensor([1])).extra["logits"].tolist() == [[2.5, 3.5]]


def test_a_memory_of_size_0_stays_empty():
    memory = Memory(0)
    assert memory.sample(10, torch.Generator()).tolist() == []
    assert memory.counts() == {}
    copy = Memory(0)
    copy.load_state_dict(memory.state_dict())
    assert (len(copy), copy.columns) == (0, {})


def test_a_memory_of_size_1_holds_the_last_one_written():
    memory = Memory(1)
    for value in (7, 8):
        memory.write(torch.tensor([0]), batch([value], [value % 3]))
        assert memory.sample(10, torch.Generator().manual_seed(0)).tolist() == [0]
        assert memory.read(torch.tensor([0])).x.unique().tolist() == [value]
    assert memory.counts() == {2: 1}


def test_a_past_copies_what_was_filled_then():
    memory = Memory(1000)
    memory.write(torch.arange(3), batch([1, 2, 3], [0, 0, 1]))
    past = Past(memory)
    memory.write(torch.tensor([1, 3, 4]), batch([7, 8, 9], [2, 2, 2], more=torch.ones(3)))
    assert {name: len(column) for name, column in past.columns.items()} == {"x": 3, "y": 3}
    assert past.columns["x"][:, 0, 0, 0].tolist() == [1, 2, 3]
    assert memory.columns["x"][:5, 0, 0, 0].tolist() == [1, 7, 3, 8, 9]
    past.restore()
    assert memory.columns["x"][:5, 0, 0, 0].tolist() == [1, 2, 3, 0, 0]


@pytest.mark.parametrize("size", [-1, 2.5, "10", True, None])
def test_a_size_that_is_none(size):
    with pytest.raises(InputError, match=r"The size of the memory must be a whole number of at least 0\. Got "):
        Memory(size)


def test_samples_are_kept_in_one_place_and_read_to_another():
    memory = Memory(4, device="cpu", home="meta")
    memory.write(torch.arange(2), batch([1, 2], [0, 1]))
    assert memory.columns["x"].device.type == "cpu"
    read = memory.read(torch.tensor([0, 1]))
    assert {read.x.device.type, read.y.device.type} == {"meta"}
