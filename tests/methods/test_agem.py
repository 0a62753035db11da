import numpy as np
import pytest
import torch

from evenhand import Learner
from evenhand.backbones import MLP
from evenhand.methods.agem import project
from reference import agem, losses


def two_steps(method, labels, seed):
    """The step that a learner takes after its first batch, which is then the whole memory, and both gradients."""
    drawn = torch.Generator().manual_seed(seed)
    learner = Learner(MLP((6,), hidden=0), method, memory=5, replay=5, lr=0.1, device="cpu")
    first = torch.randn(5, 6, generator=drawn)
    second = first + 0.1 * torch.randn(5, 6, generator=drawn)
    learner.observe(first, [0, 1, 2, 0, 1])
    head = learner.network.head
    before = torch.cat([head.weight.detach().flatten(), head.bias.detach()]).double()
    layers = {"head": (head.weight.tolist(), head.bias.tolist())}
    stream, memory = (list(zip(x.tolist(), y, strict=True)) for x, y in ((second, labels), (first, [0, 1, 2, 0, 1])))
    if method == "agem":
        pair = losses.expectation(layers, stream, "dot", "h"), losses.expectation(layers, memory, "dot", "h")
    else:
        dot, cos = (losses.expectation(layers, memory, form, "h") for form in ("dot", "cos"))
        pair = losses.expectation(layers, stream, "cos", "h"), losses.weighted((0.3, dot), (0.7, cos))
    g, g_ref = ([*found["head.W"].ravel(), *found["head.b"]] for found in pair)
    learner.observe(second, labels)
    after = torch.cat([head.weight.detach().flatten(), head.bias.detach()]).double()
    return (before - after).numpy(), g, g_ref


CONFLICT, AGREEMENT = [1, 2, 0, 1, 2], [0, 1, 2, 0, 1]  # the samples are nearly those of the memory


@pytest.mark.parametrize("seed", [1, 3])
@pytest.mark.parametrize("labels", [CONFLICT, AGREEMENT])
@pytest.mark.parametrize("method", ["agem", "agem+uer(alpha=0.3)"])
def test_the_update_is_the_projected_gradient(method, labels, seed):
    step, g, g_ref = two_steps(method, labels, seed)
    assert (np.dot(g, g_ref) < 0) == (labels == CONFLICT)
    assert np.allclose(step, 0.1 * np.array(agem.projection(g, g_ref)), rtol=0, atol=1e-6)


def test_a_wrong_equation_is_noticed():
    step, g, g_ref = two_steps("agem", CONFLICT, 0)
    assert not np.allclose(step, 0.1 * np.array(g), rtol=0, atol=1e-4)
    step, g, g_ref = two_steps("agem", AGREEMENT, 0)
    assert not np.allclose(step, 0.1 * np.array(agem.projection(g, g_ref, always=True)), rtol=0, atol=1e-4)
    assert not np.allclose(step, 0.1 * (np.array(g) + g_ref), rtol=0, atol=1e-4)  # the replay loss is not added


def test_what_remains_is_across_the_memory():
    step, _, g_ref = two_steps("agem", CONFLICT, 1)
    assert abs(np.dot(step, g_ref)) < 1e-6


@pytest.mark.parametrize(
    ("g", "g_ref", "expected"),
    [
        ([3.0, 1.0], [-1.0, 1.0], [2.0, 2.0]),  # g . g_ref = -2, g_ref . g_ref = 2
        ([1.0, 0.0], [-2.0, 0.0], [0.0, 0.0]),  # opposite: nothing is left
        ([3.0, 1.0], [1.0, -1.0], [3.0, 1.0]),  # agreement
        ([3.0, 1.0], [-1.0, 3.0], [3.0, 1.0]),  # across
        ([3.0, 1.0], [0.0, 0.0], [3.0, 1.0]),  # a memory that says nothing
    ],
)
def test_projection_by_hand(g, g_ref, expected):
    """The two parameters are one vector, however they are cut."""
    whole = project([torch.tensor(g)], [torch.tensor(g_ref)])
    cut = project(*([torch.tensor([value]) for value in vector] for vector in (g, g_ref)))
    assert whole[0].tolist() == torch.cat(cut).tolist() == expected == agem.projection(g, g_ref)


def test_the_first_batch_is_learned_as_it_is():
    one, other = (Learner(MLP((6,), hidden=0), method, memory=5, device="cpu") for method in ("agem", "er"))
    x = torch.rand(5, 6, generator=torch.Generator().manual_seed(0))
    for learner in (one, other):
        learner.observe(x, [0, 1, 2, 0, 1])
    assert torch.equal(one.network.head.weight, other.network.head.weight)


def test_all_layers_are_projected_together(learner, images):
    """The gradients of trunk and head are one vector."""
    made = learner("agem", "mlp", memory=10, replay=10, lr=0.1)
    [(first, y)] = images(1)
    made.observe(first, y)
    second, labels = first // 2, [{0: 1, 1: 3, 3: 0}[label] for label in y]
    network = made.network
    parameters = list(network.parameters())
    g, g_ref = [], []
    for found, x, of in ((g, second, labels), (g_ref, first, y)):
        logits = network.logits(network.features(x.flatten(1) / 255))
        rows = torch.tensor([made.labels.index(label) for label in of])
        loss = torch.nn.functional.cross_entropy(logits, rows)
        for gradient in torch.autograd.grad(loss, parameters):
            found.extend(gradient.flatten().double().tolist())
    assert np.dot(g, g_ref) < 0
    before = torch.cat([p.detach().flatten() for p in parameters]).double()
    made.observe(second, labels)
    step = before - torch.cat([p.detach().flatten() for p in parameters]).double()
    assert np.allclose(step, 0.1 * np.array(agem.projection(g, g_ref)), rtol=0, atol=1e-6)


def test_losses_that_share_a_graph_are_projected(learner, images):
    made = learner("agem+scr+uer", "mlp", memory=10, replay=5)
    for x, y in images(3):
        made.observe(x, y)
    assert made.steps == 3
