import copy
from functools import partial

import numpy as np
import pytest
import torch

from evenhand import Batch, Learner, errors, resolve
from evenhand.backbones import MLP
from reference import losses, scr

DIM, CLASSES = 3, 4
CURRENT, REPLAYED = [3, 1, 3], [0, 1]  # both views of each: ten anchors, among them classes of two


def slopes(f, values, places):
    """The differences of f at some places of an array."""
    found = []
    for place in places:
        ends = []
        for step in (1e-6, -1e-6):
            moved = values.copy()
            moved[place] += step
            ends.append(f(moved.tolist()))
        found.append((ends[0] - ends[1]) / 2e-6)
    return found


def problem(method):
    """A learner in float64 with a batch and a replay of two views each."""
    drawn = torch.Generator().manual_seed(4)
    learner = Learner(MLP((DIM,), hidden=0), method, device="cpu")
    learner.network.grow(CLASSES, drawn)
    learner.network.double()
    batches = []
    for y in (CURRENT, REPLAYED):
        h = torch.randn(2 * len(y), DIM, generator=drawn, dtype=torch.float64).requires_grad_()
        batches.append(Batch(h[: len(y)].detach(), torch.tensor(y), views=h))
    return learner, *batches


def parts(learner, batch, replay):
    """Everything the loss depends on, by name."""
    first, _, second = learner.network.extra["projector"]
    head = learner.network.head
    return {
        "current": batch.views,
        "replayed": replay.views,
        "V": first.weight,
        "c": first.bias,
        "U": second.weight,
        "d": second.bias,
        "W": head.weight,
        "b": head.bias,
    }


def transcribed(values, **options):
    """The contrastive loss of a dict of lists."""
    pairs = [zip(values[k], 2 * y, strict=True) for k, y in (("current", CURRENT), ("replayed", REPLAYED))]
    return scr.scr((values["V"], values["c"]), (values["U"], values["d"]), *map(list, pairs), **options)


def with_uer(values, alpha=0.3, **options):
    """The contrastive loss and that of UER on the linear head."""
    pairs = [zip(values[k], 2 * y, strict=True) for k, y in (("current", CURRENT), ("replayed", REPLAYED))]
    head = {"head": (values["W"], values["b"])}
    return transcribed(values, **options) + losses.uer(head, *map(list, pairs), alpha=alpha)["loss"]


def test_projector_has_two_layers_and_128_outputs():
    first, between, second = problem("scr")[0].network.extra["projector"]
    assert (first.in_features, first.out_features, second.in_features, second.out_features) == (DIM, DIM, DIM, 128)
    assert isinstance(between, torch.nn.ReLU)


@pytest.mark.parametrize(
    ("method", "reference"),
    [
        ("scr", transcribed),
        ("scr(temperature=0.5)", partial(transcribed, temperature=0.5)),
        ("scr(temperature=0.1, by_view=False)", partial(transcribed, temperature=0.1)),
        ("scr(by_view=False)+uer(alpha=0.3)", with_uer),
        ("scr+uer(alpha=0.3)", with_uer),
    ],
)
def test_loss_and_gradients(method, reference):
    learner, batch, replay = problem(method)
    leaves = parts(learner, batch, replay)
    values = {name: leaf.tolist() for name, leaf in leaves.items()}
    loss = learner.method.objective(learner, batch, replay).total
    assert loss.item() == pytest.approx(reference(values), rel=1e-10)
    gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True, materialize_grads=True)
    for (name, leaf), gradient in zip(leaves.items(), gradients, strict=True):
        places = list(np.ndindex(*leaf.shape))[:: 40 if name in "Ud" else 1]
        expected = slopes(lambda moved, name=name: reference(values | {name: moved}), leaf.detach().numpy(), places)
        assert np.allclose([gradient[place] for place in places], expected, rtol=1e-5, atol=1e-7), name


@pytest.mark.parametrize(
    ("method", "mutant"),
    [
        ("scr", partial(transcribed, temperature=0.09)),
        ("scr", partial(transcribed, itself=True)),
        ("scr", with_uer),
        ("scr+uer(alpha=0.3)", transcribed),
        ("scr+uer(alpha=0.3)", partial(with_uer, alpha=0.7)),
    ],
)
def test_a_wrong_equation_is_noticed(method, mutant):
    learner, batch, replay = problem(method)
    values = {name: leaf.tolist() for name, leaf in parts(learner, batch, replay).items()}
    loss = learner.method.objective(learner, batch, replay).total
    assert loss.item() != pytest.approx(mutant(values), rel=1e-4)


def test_no_loss_while_the_memory_is_empty():
    learner, batch, _ = problem("scr")
    assert learner.method.objective(learner, batch, None).total is None
    learner, batch, _ = problem("scr+uer")
    alone = losses.expectation(
        {"head": (learner.network.head.weight.tolist(), learner.network.head.bias.tolist())},
        list(zip(batch.views.tolist(), 2 * CURRENT, strict=True)),
        "cos",
        "current",
    )
    assert learner.method.objective(learner, batch, None).total.item() == pytest.approx(alone["loss"], rel=1e-10)


def test_it_makes_two_views_whatever_is_asked_for(learner, images):
    made = learner("scr")
    [(x, y)] = images(1)
    made.observe(x, y)
    back = made.method.retrieval(made, None)
    assert back.views.shape == (20, 1, 8, 8)
    assert torch.equal(back.views[:10], back.x / 255)
    assert not torch.equal(back.views[10:], back.views[:10])


@pytest.mark.parametrize("method", ["scr", "scr+uer", "scr(by_view=False)"])
def test_a_view_of_stream_and_memory_is_a_pass(method, learner, images):
    made = learner(method, memory=10)
    (x, y), (later, labels) = images(2)
    made.observe(x, y)
    seen = []
    made.network.trunk.register_forward_hook(lambda _, given, __: seen.append(given[0]))
    made.observe(later, labels)
    if method == "scr(by_view=False)":
        assert [len(inputs) for inputs in seen] == [40]
        return
    raw, augmented = seen
    stored = {tuple(image.flatten().tolist()) for image in x / 255}
    assert torch.equal(raw[:10], later / 255)
    assert {tuple(image.flatten().tolist()) for image in raw[10:]} == stored
    assert augmented.shape == raw.shape
    assert (augmented != raw).flatten(1).any(1).all()
    assert raw.is_contiguous(memory_format=torch.channels_last)


def expected_labels(learner, x):
    """The nearest class means by the weights and the memory that the learner has now."""
    network = copy.deepcopy(learner.network).eval()
    stored = learner.memory.read(torch.arange(len(learner.memory)))
    with torch.no_grad():
        memories, asked = network.features(stored.x / 255).tolist(), network.features(x / 255).tolist()
    pairs = list(zip(memories, stored.y.tolist(), strict=True))
    return [learner.labels[scr.nearest_mean(pairs, h)] for h in asked]


def test_nearest_class_mean_follows_weights_and_memory(learner, images):
    made = learner("scr", memory=15, lr=0.5)
    [(asked, _)] = images(1, size=40, seed=9)
    answers = []
    for x, y in images(6):
        made.observe(x, ["dcba"[label] for label in y])
        answers.append(made.predict(asked))
        assert answers[-1] == expected_labels(made, asked)
        assert made.predict(asked) == answers[-1]
    assert any(answers[-1] != earlier for earlier in answers[:-1])


def test_a_class_without_memories_is_never_predicted(learner, images):
    made = learner("scr", memory=15)
    for x, y in images(3):
        made.observe(x, y)
    rows = made.memory.columns["y"]
    gone = int(rows[0])
    slots = (rows == gone).nonzero().flatten()
    [(asked, _)] = images(1, size=100, seed=9)
    assert made.labels[gone] in made.predict(asked)
    made.memory.edit(slots, y=torch.full((len(slots),), (gone + 1) % 4))
    made.changed()
    assert made.labels[gone] not in made.predict(asked)
    assert (made.scores(asked)[:, gone] == -torch.inf).all()
    assert made.predict(asked) == expected_labels(made, asked)


def test_with_uer_the_linear_head_is_tested(learner, images):
    made = learner("scr+uer", memory=15)
    for x, y in images(3):
        made.observe(x, y)
    [(asked, _)] = images(1, seed=9)
    network = copy.deepcopy(made.network).eval()
    with torch.no_grad():
        expected = network.features(asked / 255) @ network.head.weight.T + network.head.bias
    assert torch.allclose(made.scores(asked), expected, atol=1e-5)


def test_by_view_is_validated():
    with pytest.raises(errors.InputError, match="The 'by_view' parameter of scr must be True or False"):
        resolve("scr(by_view=1)")


@pytest.mark.parametrize("value", ["0", "-1", "'warm'", "True"])
def test_temperature_is_validated(value):
    with pytest.raises(errors.InputError, match="'temperature' parameter of scr must be a number of at least 1e-06"):
        resolve(f"scr(temperature={value})")


def test_a_class_of_black_images_has_memories_too():
    learner = Learner(MLP((1, 8, 8), hidden=0), "scr", memory=10, device="cpu")
    x = torch.cat([torch.zeros(2, 1, 8, 8), torch.full((2, 1, 8, 8), 0.5)])
    learner.observe(x, ["black", "black", "grey", "grey"])
    assert learner.scores(x).isfinite().all()
