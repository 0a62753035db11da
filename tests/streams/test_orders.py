"""The orders beyond plain classes, and what holds for all of them."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenhand import Dataset, Learner, Stream
from evenhand.backbones import MLP
from evenhand.datasets import rows_by_class
from evenhand.errors import InputError
from evenhand.streams import canonical
from evenhand.streams.domains import DOMAINS, Domain

VECTORS = [
    "classes",
    "classes(sequence='5,4,3,2,1,0')",
    "iid",
    "iid++",
    "blurry",
    "blurry(disjoint=0, blur=50)",
    "smooth",
]
ALL = [*VECTORS, "domains(kinds='plain,noise')"]


def marked(per_class=40, classes=6, test=4):
    """Images that carry their own number in their first pixels: training samples from 0 on, test samples from 10000."""
    y, test_y = torch.arange(per_class * classes) % classes, torch.arange(test * classes) % classes
    numbers = [torch.arange(len(y)), 10000 + torch.arange(len(test_y))]
    x, test_x = (
        torch.stack([n // 256, n % 256], 1).to(torch.uint8).view(-1, 1, 1, 2).repeat(1, 1, 4, 2) for n in numbers
    )
    return Dataset("marked", x, y, test_x, test_y, tuple("abcdef"[:classes]))


def vectors(**sizes):
    data = marked(**sizes)
    flat = [x[:, 0, 0, :2].float() for x in (data.train_x, data.test_x)]
    return Dataset("vectors", flat[0], data.train_y, flat[1], data.test_y, data.classes)


def numbers(x):
    pair = x.reshape(len(x), -1)[:, :2].long()
    return (256 * pair[:, 0] + pair[:, 1]).tolist()


def rows(stream):
    """The rows of the training set that each stage brings."""
    return [
        stage.train[: length * stream.batch].tolist()
        for stage, length in zip(stream.stages, stream.lengths, strict=True)
    ]


@given(st.sampled_from(ALL), st.integers(0, 30), st.integers(1, 9), st.sampled_from([1, 3, 50]), st.booleans())
def test_no_sample_comes_twice_in_any_order(order, seed, batch, imbalance, validation):
    data = marked()
    stream = Stream.split(data, 2, seed, order, batch, imbalance=imbalance, validation=validation)
    given_rows = [row for stage in rows(stream) for row in stage]
    assert len(given_rows) == len(set(given_rows)) == len(stream) * batch
    tested = [row for stage in stream.stages for row in stage.test.tolist()]
    if validation:
        assert not set(tested) & set(given_rows)
    again = Stream.split(data, 2, seed, order, batch, imbalance=imbalance, validation=validation)
    assert rows(again) == rows(stream)


@given(st.sampled_from(VECTORS), st.integers(0, 30), st.booleans())
def test_what_is_brought_is_what_was_planned(order, seed, validation):
    data = marked()
    stream = Stream.split(data, 3, seed, order, batch=7, validation=validation)
    brought = [number for step in stream.steps() for number in numbers(step.x)]
    assert brought == [row for stage in rows(stream) for row in stage]
    for step in stream.steps():
        assert data.train_y[numbers(step.x)].tolist() == step.y.tolist()


@pytest.mark.parametrize("order", VECTORS)
@pytest.mark.parametrize("validation", [False, True])
def test_no_test_sample_reaches_the_memory(order, validation):
    data = vectors()
    stream = Stream.split(data, 2, 0, order, validation=validation)
    learner = Learner(MLP((2,)), "er", memory=60, lr=1e-6)
    for step in stream.steps():
        learner.observe(step.x, step.y, second=step.second)
    kept = set(numbers(learner.memory.read(torch.arange(len(learner.memory))).x)) if len(learner.memory) else set()
    tested = {number for stage in range(len(stream.stages)) for number in numbers(stream.test(stage)[0])}
    assert not kept & tested
    assert max(kept, default=0) < 10000
    assert (max(tested) < 10000) == validation
    assert bool(kept) == (order != "iid++")


def test_validation_never_reads_a_test_sample():
    class Poison:
        def __getitem__(self, _):
            raise AssertionError("a test sample was read")

        def __len__(self):
            return 24

    data = marked()
    object.__setattr__(data, "test_x", Poison())
    stream = Stream.split(data, 3, 0, validation=True)
    for _ in stream.steps():
        pass
    assert sum(len(stream.test(stage)[1]) for stage in range(3)) == 24  # a tenth of 240
    with pytest.raises(AssertionError, match="was read"):
        Stream.split(data, 3, 0).test(0)


def test_validation_holds_out_the_same_tenth_of_every_class_for_every_seed():
    held = [
        sorted(row for stage in Stream.split(marked(), 3, seed, validation=True).stages for row in stage.test.tolist())
        for seed in range(3)
    ]
    assert held[0] == held[1] == held[2]
    assert torch.bincount(marked().train_y[held[0]]).tolist() == [4] * 6


def test_validation_needs_a_second_sample_of_each_class():
    lonely = marked(per_class=1)
    with pytest.raises(InputError, match="The class 'a' has too few samples to hold some out for validation"):
        Stream.split(lonely, 2, 0, batch=1, validation=True)


@given(st.integers(1, 6), st.integers(0, 20))
def test_any_number_of_stages_with_classes_as_even_as_can_be(stages, seed):
    groups = [stage.classes for stage in Stream.split(marked(), stages, seed).stages]
    assert sorted(c for group in groups for c in group) == list(range(6))
    sizes = [len(group) for group in groups]
    assert len(sizes) == stages
    assert max(sizes) - min(sizes) <= 1


def test_the_natural_sequence_is_that_of_the_numbers():
    orders = ["classes(sequence='natural')", "classes(sequence='0,1,2,3,4,5')"]
    natural, by_hand = (Stream.split(marked(), 3, 0, order) for order in orders)
    assert [stage.classes for stage in natural.stages] == [(0, 1), (2, 3), (4, 5)]
    for one, other in zip(natural.stages, by_hand.stages, strict=True):
        assert torch.equal(one.train, other.train)


def test_a_sequence_by_hand_in_numbers_or_names():
    for sequence in ("5,0,4,1,3,2", "f, a, e, b, d, c"):
        stream = Stream.split(marked(), 3, 0, f"classes(sequence='{sequence}')")
        assert [stage.classes for stage in stream.stages] == [(5, 0), (4, 1), (3, 2)]


@given(st.integers(0, 20), st.sampled_from([0, 50, 100]), st.sampled_from([0, 10, 30]))
def test_blurry_keeps_some_classes_apart_and_lends_samples_of_the_others(seed, disjoint, blur):
    data = marked(per_class=60)
    stream = Stream.split(data, 3, seed, f"blurry(disjoint={disjoint}, blur={blur})", batch=1)
    home = {c: number for number, stage in enumerate(stream.stages) for c in stage.classes}
    counts = torch.zeros(6, 3, dtype=torch.int64)
    for number, brought in enumerate(rows(stream)):
        counts[:, number] = torch.bincount(data.train_y[brought], minlength=6)
    lent = round(60 * blur / 100)
    apart = 0
    for c, stage in home.items():
        others = [int(counts[c, other]) for other in range(3) if other != stage]
        if sum(others) == 0:
            apart += 1
            assert counts[c, stage] == 60
        else:
            assert counts[c, stage] == 60 - lent
            assert sum(others) == lent
            assert max(others) - min(others) <= 1
    assert apart == (6 if blur == 0 else round(6 * disjoint / 100))


def test_smooth_brings_samples_near_their_stage():
    data = marked(per_class=500)
    sharp, soft, wide = (Stream.split(data, 3, 0, f"smooth(width={width})", batch=1) for width in (0, 0.25, 2))
    shares = []
    for stream in (sharp, soft, wide):
        own = [
            sum(int(label) in stage.classes for label in data.train_y[brought]) / len(brought)
            for stage, brought in zip(stream.stages, rows(stream), strict=True)
        ]
        shares.append(sum(own) / 3)
        assert [len(brought) for brought in rows(stream)] == [1000] * 3
    assert shares[0] == 1
    assert 0.7 < shares[1] < 0.9
    assert shares[2] < 0.55
    # Within a stage the classes of the next one come ever more often.
    first, following = soft.stages[0].train, set(soft.stages[1].classes)
    early, late = (sum(int(label) in following for label in data.train_y[part]) for part in first.chunk(2))
    assert late > 3 * early


@given(st.integers(0, 20), st.sampled_from([1, 4, 40]))
def test_a_long_tail_falls_by_its_factor(seed, factor):
    data = marked(per_class=200)
    stream = Stream.split(data, 1, seed, "iid", batch=1, imbalance=factor)
    counts = sorted(torch.bincount(data.train_y[rows(stream)[0]], minlength=6).tolist(), reverse=True)
    assert counts == [round(200 * factor ** (-rank / 5)) for rank in range(6)]
    assert len(stream.test(0)[1]) == 24  # the test set stays whole


def test_which_classes_are_rare_does_not_follow_their_arrival():
    data = marked(per_class=200)
    firsts = []
    for seed in range(30):
        stream = Stream.split(data, 6, seed, batch=1, imbalance=20)
        sizes = [len(brought) for brought in rows(stream)]
        firsts.append(sorted(sizes, reverse=True).index(sizes[0]))
    assert len(set(firsts)) == 6


def test_domains_share_the_samples_of_every_class():
    data = marked(per_class=60)
    stream = Stream.split(data, 6, 0, "domains", batch=1)
    for number, brought in enumerate(rows(stream)):
        assert torch.bincount(data.train_y[brought]).tolist() == [10] * 6
        assert stream.stages[number].domain.kind == list(DOMAINS)[number]
        assert len(stream.test(number)[1]) == 24
    with pytest.raises(InputError, match="must be at most 6 in the order domains. Got 7"):
        Stream.split(data, 7, 0, "domains")
    with pytest.raises(InputError, match="must be 2, one for each kind. Got 3"):
        Stream.split(data, 3, 0, "domains(kinds='dark,blur')")


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("floats", [False, True])
def test_a_domain_changes_a_sample_the_same_whenever_and_with_whomever_it_is_read(kind, floats):
    x = torch.randint(256, (6, 3, 12, 12), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
    x = x.float() / 255 if floats else x
    domain, positions = Domain(kind, 1.0, seed=3), torch.arange(6)
    whole = domain(x, positions, "train")
    alone = torch.cat([domain(x[i : i + 1], positions[i : i + 1], "train") for i in range(6)])
    assert torch.allclose(whole.float(), alone.float(), atol=1e-6 if floats else 1.0)
    assert whole.dtype == x.dtype
    assert whole.shape == x.shape
    assert (kind == "plain") == torch.equal(whole, x)
    assert torch.equal(Domain(kind, 0.0, seed=3)(x, positions, "train"), x)
    if floats:
        assert whole.min() >= 0
        assert whole.max() <= 1


def test_domains_do_what_they_are_called():
    ramp = torch.linspace(0.3, 0.7, 400).view(1, 1, 20, 20).repeat(1, 3, 1, 1)
    checks = torch.tensor([[0.2, 0.8], [0.8, 0.2]]).repeat(10, 10).view(1, 1, 20, 20).repeat(1, 3, 1, 1)
    row = torch.tensor([4])
    changed = {kind: Domain(kind, 1.0, 0)(ramp, row, "train") for kind in DOMAINS}
    assert changed["dark"].mean() < ramp.mean() - 0.3
    assert changed["bright"].mean() > ramp.mean() + 0.3
    assert changed["faint"].std() < 0.4 * ramp.std()
    assert changed["faint"].mean().item() == pytest.approx(ramp.mean().item(), abs=1e-5)
    noise = changed["noise"] - ramp
    assert noise.std().item() == pytest.approx(0.15, rel=0.1)
    assert not torch.equal(noise, Domain("noise", 1.0, 0)(ramp, torch.tensor([5]), "train") - ramp)
    assert not torch.equal(noise, Domain("noise", 1.0, 0)(ramp, row, "test") - ramp)
    blurred = Domain("blur", 1.0, 0)(checks, row, "train")
    assert blurred.std() < 0.5 * checks.std()
    assert blurred.mean().item() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        ("classes", "classes"),
        ("iid++", "iid++"),
        ("blurry( blur = 10 )", "blurry"),
        ("blurry(blur=20, disjoint=30)", "blurry(disjoint=30, blur=20)"),
        ("smooth(width=0.25)", "smooth"),
        ("blurry(blur=20.0, disjoint=50.0)", "blurry(blur=20)"),
        ("iid(twice=True)", "iid++"),
        ("iid(twice=False)", "iid"),
        ("classes(sequence='1, 0')", "classes(sequence='1,0')"),
        ("domains(kinds=' dark , blur')", "domains(kinds='dark,blur')"),
    ],
)
def test_an_order_has_one_spelling(given_name, name):
    assert canonical(given_name) == name


@pytest.mark.parametrize(
    ("order", "sentence"),
    [
        ("classes(sequence=5)", "The 'sequence' of classes must be a string. Got 5"),
        ("domains(kinds=3)", "The 'kinds' of domains must be a string. Got 3"),
        ("iid(twice='no')", "The 'twice' parameter of iid must be True or False. Got 'no'"),
    ],
)
def test_a_wrong_parameter_is_one_sentence(order, sentence):
    with pytest.raises(InputError, match=sentence):
        canonical(order)


def test_domains_refuse_floats_that_they_would_cut():
    data = marked()
    data = replace(data, train_x=data.train_x.float())
    with pytest.raises(InputError, match=r"must be uint8 or floats in \[0, 1\]"):
        Stream.split(data, 2, 0, "domains")


def test_every_class_is_tested_in_every_order():
    for order in ALL:
        stream = Stream.split(marked(), 2, 0, order)
        tested = {int(label) for stage in range(len(stream.stages)) for label in stream.test(stage)[1]}
        assert tested == set(range(6))
        assert [len(part) for part in rows_by_class(stream.test(0)[1], 6) if len(part)] == [4] * len(
            stream.stages[0].classes
        )
