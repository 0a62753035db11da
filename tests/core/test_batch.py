import pytest
import torch
import torch.nn.functional as F

from evenhand import Batch, Losses
from evenhand.core.batch import unit


def test_bytes_become_floats_in_the_unit_interval():
    x = torch.tensor([[[[0, 51], [204, 255]]]], dtype=torch.uint8)
    assert torch.allclose(unit(x).flatten(), torch.tensor([0, 0.2, 0.8, 1.0]))
    assert x.flatten().tolist() == [0, 51, 204, 255]


def test_floats_stay_as_they_are():
    for x in (torch.rand(2, 3, 4, 4), torch.randn(2, 5)):
        before = x.clone()
        assert torch.equal(unit(x), x)
        assert torch.equal(x, before)


def test_images_are_laid_out_channels_last():
    assert unit(torch.rand(2, 3, 4, 4)).is_contiguous(memory_format=torch.channels_last)
    assert unit(torch.zeros(2, 3, 4, 4, dtype=torch.uint8)).is_contiguous(memory_format=torch.channels_last)


def test_targets_are_repeated_for_every_view():
    x, y = torch.rand(3, 2), torch.tensor([2, 0, 1])
    assert torch.equal(Batch(x, y).targets, y)
    twice = Batch(x, y, views=torch.cat([x, x + 1]))
    assert twice.targets.tolist() == [2, 0, 1, 2, 0, 1]
    logits = torch.randn(6, 3)
    by_view = [F.cross_entropy(part, y) for part in logits.split(3)]
    assert torch.allclose(twice.cross_entropy(logits), sum(by_view) / 2)


@pytest.mark.parametrize(
    "rows", [[2, 0], torch.tensor([2, 0]), slice(1, None), slice(0), torch.tensor([True, False, True])]
)
def test_rows_of_a_batch_carry_their_columns_and_views(rows):
    x, y = torch.rand(3, 2), torch.tensor([2, 0, 1])
    slots, age = torch.tensor([7, 8, 9]), torch.tensor([4, 5, 6])
    some = Batch(x, y, slots, {"age": age}, views=torch.cat([x, x + 1]))[rows]
    assert torch.equal(some.x, x[rows])
    assert torch.equal(some.y, y[rows])
    assert torch.equal(some.slots, slots[rows])
    assert torch.equal(some.extra["age"], age[rows])
    assert torch.equal(some.views, torch.cat([x[rows], x[rows] + 1]))


def test_the_total_is_the_sum_of_what_there_is():
    one, two = torch.tensor(1.5), torch.tensor(2.0)
    assert Losses(one, two).total == 3.5
    assert Losses(one).total is one
    assert Losses(None, two).total is two
    assert Losses(None).total is None


def test_an_update_descends_what_there_is(train):
    made = train("er", batches=2)
    before = made.network.head.weight.detach().clone()
    made.method.update(made, Losses(None))
    assert torch.equal(made.network.head.weight, before)
    made.method.update(made, Losses(None, made.network.head.weight.sum()))
    assert torch.allclose(made.network.head.weight, before - made.lr)
