import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenhand import Dataset, Stream, datasets
from evenhand.datasets import rows_by_class
from evenhand.errors import InputError


def numbered(per_class=7, classes=6, test=2):
    """A dataset whose samples are their own numbers, classes mixed; test samples count down from -1."""
    y = torch.arange(per_class * classes) % classes
    test_y = torch.arange(test * classes) % classes
    train_x, test_x = torch.arange(len(y)).view(-1, 1), -1 - torch.arange(len(test_y)).view(-1, 1)
    return Dataset("numbers", train_x, y, test_x, test_y, tuple("abcdefghij"[:classes]))


def trace(stream, start=0):
    """All that the stream brings, as plain lists."""
    return [
        (s.stage, s.x.flatten().tolist(), s.y.tolist(), s.second and [part.flatten().tolist() for part in s.second])
        for s in stream.steps(start)
    ]


@pytest.mark.parametrize("order", ["classes", "iid", "iid++"])
def test_the_order_is_a_function_of_the_seed(order):
    state = torch.get_rng_state()
    one, again = (trace(Stream.split(numbered(), 3, seed=4, order=order, batch=5)) for _ in range(2))
    assert one == again
    others = [trace(Stream.split(numbered(), 3, seed=seed, order=order, batch=5)) for seed in range(4)]
    assert all(one != other for other in others)
    assert torch.equal(state, torch.get_rng_state())


@given(st.sampled_from([1, 2, 3, 6]), st.integers(0, 50), st.integers(1, 7))
def test_each_sample_comes_once_but_for_the_last_partial_batches(stages, seed, batch):
    data = numbered()
    stream = Stream.split(data, stages, seed, batch=batch)
    steps = trace(stream)
    seen = [number for _, x, _, _ in steps for number in x]
    per_stage = 42 // stages
    assert len(seen) == len(set(seen)) == stages * (per_stage // batch * batch)
    assert [len(x) for _, x, _, _ in steps] == [batch] * len(steps)
    assert len(stream) == len(steps) == sum(stream.lengths)
    assert stream.lengths == [per_stage // batch] * stages
    assert [stage for stage, _, _, _ in steps] == [i for i in range(stages) for _ in range(per_stage // batch)]
    for _, x, y, second in steps:
        assert data.train_y[x].tolist() == y
        assert second is None


@given(st.sampled_from([1, 2, 3, 6]), st.integers(0, 50))
def test_stages_share_no_class_and_miss_none(stages, seed):
    data = numbered()
    stream = Stream.split(data, stages, seed, batch=1)
    classes = [stage.classes for stage in stream.stages]
    assert sorted(c for group in classes for c in group) == list(range(6))
    assert {len(group) for group in classes} == {6 // stages}
    for number, group in enumerate(classes):
        assert {label for stage, _, y, _ in trace(stream) if stage == number for label in y} == set(group)
        x, y = stream.test(number)
        assert set(y.tolist()) == set(group)
        assert sorted(x.flatten().tolist()) == sorted(data.test_x[torch.isin(data.test_y, y)].flatten().tolist())


def test_the_classes_are_shuffled_over_seeds():
    firsts = {Stream.split(numbered(), 6, seed, batch=1).stages[0].classes for seed in range(40)}
    assert len(firsts) == 6


def test_the_samples_of_a_stage_are_mixed():
    _, first, y, _ = trace(Stream.split(numbered(per_class=50), 2, seed=0, batch=100))[0]
    assert first != sorted(first)
    assert len(set(y[:20])) == 3


@pytest.mark.parametrize("order", ["iid", "iid++"])
def test_iid_brings_all_classes_in_one_stage(order):
    stream = Stream.split(numbered(), 3, seed=0, order=order, batch=6)
    seen = [number for _, x, _, _ in trace(stream) for number in x]
    assert sorted(seen) == list(range(42))
    assert len(stream.stages) == 1
    assert sorted(stream.stages[0].classes) == list(range(6))
    assert len(stream.test(0)[1]) == 12


def test_the_second_batches_of_iid_plus_plus_are_a_shuffle_of_their_own():
    data = numbered()
    once, twice = (trace(Stream.split(data, 1, seed=0, order=order, batch=6)) for order in ("iid", "iid++"))
    assert [x for _, x, _, _ in once] == [x for _, x, _, _ in twice]
    second = [number for _, _, _, (x, _) in twice for number in x]
    assert sorted(second) == list(range(42))
    assert second != [number for _, x, _, _ in twice for number in x]
    for _, _, _, (x, y) in twice:
        assert data.train_y[x].tolist() == y


@given(
    st.sampled_from(["classes", "iid", "iid++"]),
    st.sampled_from([1, 2, 3]),
    st.integers(1, 7),
    st.integers(0, 60),
    st.booleans(),
)
def test_resuming_from_anywhere_gives_the_same_tail(order, stages, batch, start, keep):
    whole = trace(Stream.split(numbered(), stages, 0, order, batch, keep_partial=keep))
    again = Stream.split(numbered(), stages, 0, order, batch, keep_partial=keep)
    assert trace(again, start) == whole[start:]
    assert len(whole) == len(again)


def test_a_partial_batch_is_dropped_or_kept():
    dropped, kept = (Stream.split(numbered(), 2, 0, batch=8, keep_partial=keep) for keep in (False, True))
    assert [len(x) for _, x, _, _ in trace(dropped)] == [8, 8, 8, 8]
    assert [len(x) for _, x, _, _ in trace(kept)] == [8, 8, 5, 8, 8, 5]
    assert sorted(number for _, x, _, _ in trace(kept) for number in x) == list(range(42))
    assert [step for step in trace(kept) if len(step[1]) == 8] == trace(dropped)
    assert [len(x) for _, x, _, _ in trace(Stream.split(numbered(), 2, 0, batch=22, keep_partial=True))] == [21, 21]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"stages": 12}, r"The number of 'stages' must not exceed the 6 classes of numbers\. Got 12 instead"),
        ({"stages": 0}, r"The number of 'stages' must be a whole number of at least 1\. Got 0 instead"),
        ({"stages": 2.0}, r"The number of 'stages' must be a whole number"),
        ({"batch": 0}, r"The 'batch' of a stream must be a whole number of at least 1\. Got 0 instead"),
        (
            {"batch": 22},
            r"The smallest stage of numbers has 21 training samples, fewer than a batch of 22\. "
            r"Use a smaller batch or fewer stages, or keep partial batches\.",
        ),
        ({"order": "blury"}, r"There is no order called 'blury'\. Did you mean blurry\?"),
        ({"order": "iid+iid"}, r"There is no order called 'iid\+iid'"),
        ({"order": "classes("}, r"A name must look like"),
        (
            {"order": "blurry(m=10)"},
            r"There is no parameter of blurry called 'm'\. Available: blur, disjoint",
        ),
        ({"order": "blurry(blur=101)"}, r"The 'blur' percentage of blurry must be a number in \[0, 100\]"),
        ({"order": "smooth(width=-1)"}, r"The 'width' of smooth must be a number of at least 0"),
        ({"order": "classes(sequence='a,b')"}, r"The 'sequence' of classes must name each of the 6 classes once"),
        ({"order": "classes(sequence='a,b,c,d,e,g')"}, r"There is no class called 'g'"),
        ({"order": "domains"}, r"The order domains needs images, but numbers holds vectors"),
        ({"order": "domains(kinds='rain')"}, r"There is no kind of domain called 'rain'"),
        ({"imbalance": 0.5}, r"The 'imbalance' of a stream must be a number of at least 1\. Got 0\.5 instead"),
    ],
)
def test_a_stream_that_cannot_be(options, sentence):
    with pytest.raises(InputError, match=sentence):
        Stream.split(numbered(), **{"stages": 2, "seed": 0, **options})


def test_the_embedded_images():
    data = datasets.load("fashion-cut")
    assert data.shape == (1, 28, 28)
    assert data.train_x.dtype == data.test_x.dtype == torch.uint8
    assert torch.bincount(data.train_y).tolist() == [500] * 10
    assert torch.bincount(data.test_y).tolist() == [150] * 10
    assert len(data.classes) == 10
    assert len(data.train_x.flatten(1).unique(dim=0)) > 4990  # cut out rightly: no image is empty or a copy
    assert data.train_x.flatten(1).float().std(1).min() > 5


def test_the_embedded_classes_look_unlike_each_other():
    """The nearest class mean of the training images names most test images."""
    data = datasets.load("fashion-cut")
    means = torch.stack([data.train_x[data.train_y == c].float().mean(0).flatten() for c in range(10)])
    nearest = torch.cdist(data.test_x.flatten(1).float(), means).argmin(1)
    assert (nearest == data.test_y).float().mean() > 0.6


def test_an_unknown_dataset():
    with pytest.raises(InputError, match=r"There is no dataset called 'fashion'\. Did you mean fashion-(cut|mnist)"):
        datasets.load("fashion")


def test_rows_by_class():
    found = rows_by_class(torch.tensor([2, 0, 2, 1, 0]), 4)
    assert [positions.tolist() for positions in found] == [[1, 4], [3], [0, 2], []]


def test_datasets_that_do_not_add_up():
    x, y = torch.zeros(4, 3), torch.tensor([0, 1, 0, 1])
    with pytest.raises(
        InputError, match=r"The number of training labels of mine must be 4, one per sample\. Got 3 instead"
    ):
        Dataset("mine", x, y[:3], x, y, ("a", "b"))
    with pytest.raises(InputError, match=r"Every class of mine must have test samples\. 'b' has none"):
        Dataset("mine", x, y, x[:2], y[:2] * 0, ("a", "b"))


def test_labels_beyond_the_classes():
    x, y = torch.zeros(4, 3), torch.tensor([0, 1, 0, 1])
    with pytest.raises(InputError, match="mine"):
        Dataset("mine", x, torch.tensor([0, 1, 2, 1]), x, y, ("a", "b"))


def test_a_position_before_the_start():
    with pytest.raises(InputError):
        list(Stream.split(numbered(), 1, 0).steps(-1))
