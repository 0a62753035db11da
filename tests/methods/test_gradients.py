"""The gradients of Eq. 6-9, and the references' own gradients against differences."""

import copy

import numpy as np
import pytest
import torch

from evenhand import Batch, Learner, Network
from evenhand.backbones import MLP
from reference import losses

DIM, CLASSES, GAMMA = 5, 4, 10


def one_sample(method, scale):
    """The gradients of W and b for the loss of a single sample, with W, b, h and y; W and h as large as `scale`."""
    drawn = torch.Generator().manual_seed(7)
    network = Network.of(MLP((DIM,), hidden=0))
    network.grow(CLASSES, drawn)
    network.double()
    head = network.head
    head.weight.data = scale * torch.randn(CLASSES, DIM, generator=drawn, dtype=torch.float64)
    h = scale * torch.rand(1, DIM, generator=drawn, dtype=torch.float64)
    learner = Learner(network, method, device="cpu")
    losses = learner.method.objective(learner, Batch(h, torch.tensor([1]), views=h), None)
    dW, db = torch.autograd.grad(losses.total, [head.weight, head.bias], allow_unused=True, materialize_grads=True)
    W, b = head.weight.detach().numpy(), head.bias.detach().numpy()
    return dW.numpy(), db.numpy(), W, b, h[0].numpy(), 1


def softmax(z):
    powers = np.exp(z - z.max())
    return powers / powers.sum()


def test_er_moves_w_and_b_by_equations_6_and_7():
    dW, db, W, b, h, y = one_sample("er", scale=1.0)
    p = softmax(W @ h + b)
    for j in range(CLASSES):
        assert np.allclose(dW[j], (p[y] - 1) * h if j == y else p[j] * h, rtol=1e-12, atol=1e-15)
        assert np.isclose(db[j], p[y] - 1 if j == y else p[j], rtol=1e-12)


def test_lucir_moves_w_by_gamma_times_equation_8():
    """Eq. 8 lacks the factor gamma that the chain rule brings: the true gradient is gamma times what it prints."""
    dW, db, W, _, h, y = one_sample("lucir", scale=100.0)  # norms beside which the 1e-5 of the code is nothing
    cosine = W @ h / (np.linalg.norm(W, axis=1) * np.linalg.norm(h))
    p = softmax(GAMMA * cosine)
    for j in range(CLASSES):
        norm = np.linalg.norm(W[j])
        h_hat = (h / np.linalg.norm(h) - cosine[j] * W[j] / norm) / norm  # Eq. 9
        printed = (p[y] - 1) * h_hat if j == y else p[j] * h_hat
        assert np.allclose(dW[j], GAMMA * printed, rtol=1e-5, atol=1e-12)
        assert not np.allclose(dW[j], printed, rtol=1e-2, atol=0)
    assert not db.any()


@pytest.mark.parametrize("couple", [None, "head", "neck", "both"])
def test_references_have_the_gradients_of_their_differences(couple):
    drawn = np.random.default_rng(5)
    layers = {"head": (drawn.normal(size=(3, 4)).tolist(), drawn.normal(size=3).tolist())}
    if couple:
        layers["neck"] = (drawn.normal(size=(4, 4)).tolist(), drawn.normal(size=4).tolist())
    batches = [[(drawn.uniform(size=4).tolist(), int(drawn.integers(3))) for _ in range(2)] for _ in range(2)]

    def loss(layers, batches):
        return losses.uer(layers, *batches, alpha=0.3, couple=couple or "head")

    def slope(change):
        """The central difference of the loss by the number that `change` moves."""
        values = []
        for step in (1e-6, -1e-6):
            moved = copy.deepcopy((layers, batches))
            change(*moved, step)
            values.append(loss(*moved)["loss"])
        return (values[0] - values[1]) / 2e-6

    found = loss(layers, batches)
    for name, (W, b) in layers.items():
        for i in range(len(W)):

            def move_b(layers, _, step, name=name, i=i):
                layers[name][1][i] += step

            assert np.isclose(found[f"{name}.b"][i], slope(move_b), atol=1e-7), (name, "b", i, b[i])
            for k in range(len(W[i])):

                def move_w(layers, _, step, name=name, i=i, k=k):
                    layers[name][0][i][k] += step

                assert np.isclose(found[f"{name}.W"][i, k], slope(move_w), atol=1e-7), (name, "W", i, k)
    for part, name in enumerate(("current", "replayed")):
        for i in range(2):
            for k in range(4):

                def move_h(_, batches, step, part=part, i=i, k=k):
                    batches[part][i][0][k] += step

                assert np.isclose(found[name][i, k], slope(move_h), atol=1e-7), (name, i, k)
