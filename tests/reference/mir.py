"""MIR's retrieval, for a linear head alone or behind one hidden layer with ReLU.

A batch is a list of pairs (x, y), a mix a list of pairs (form, weight). Layers are those of `predictor`, the hidden
layer under the name of the neck, which is dot in either form of the head.
"""

import numpy as np

from reference.predictor import sample_loss


def layers(state):
    """The layers in a network's state: plain lists in float64."""
    names = {"neck": "trunk.layer", "head": "head"}
    return {
        ours: (state[f"{theirs}.weight"].double().tolist(), state[f"{theirs}.bias"].double().tolist())
        for ours, theirs in names.items()
        if f"{theirs}.weight" in state
    }


def mixed(theta, x, y, mix):
    """The loss of one sample, and its gradients by layer and by the sample itself, "h"."""
    total, gradients = 0.0, {}
    for form, weight in mix:
        loss, found = sample_loss(theta, x, y, form)
        total += weight * loss
        for name, gradient in found.items():
            gradients[name] = gradients.get(name, 0.0) + weight * np.array(gradient)
    return total, gradients


def virtual(theta, batch, mix, lr):
    """theta - lambda grad E_B[l]."""
    moved = {name: (np.array(W), np.array(b)) for name, (W, b) in theta.items()}
    for x, y in batch:
        _, gradients = mixed(theta, x, y, mix)
        for name, (W, b) in moved.items():
            W -= lr * gradients[f"{name}.W"] / len(batch)
            b -= lr * gradients[f"{name}.b"] / len(batch)
    return {name: (W.tolist(), b.tolist()) for name, (W, b) in moved.items()}


def scores(theta, batch, candidates, lr, learn, replay):
    """The loss of every candidate after the virtual step less that before it."""
    after = virtual(theta, batch, learn, lr)
    return [mixed(after, x, y, replay)[0] - mixed(theta, x, y, replay)[0] for x, y in candidates]


def largest(values, count):
    """The places of the largest values, the largest first."""
    return sorted(range(len(values)), key=lambda i: -values[i])[:count]
