"""The counted softmax: every sample against the labels of B and R, each as often as it occurs, in dot or cos."""

import math

import numpy as np

from reference.losses import weighted
from reference.predictor import backward, cos, dot


def expectation(layers, batch, among, form, part):
    """E over a batch of -z_y + log sum_{c in among} exp(z_c), with the gradients by W, b and each feature."""
    W, b = layers["head"]
    found = {"loss": np.float64(0), "head.W": np.zeros((len(W), len(W[0]))), "head.b": np.zeros(len(b)), part: []}
    for h, y in batch:
        z = (dot if form == "dot" else cos)((W, b), h)
        total = 0.0
        for c in among:
            total += math.exp(z[c])
        dz = [0.0] * len(W)
        for c in among:
            dz[c] += math.exp(z[c]) / total / len(batch)
        dz[y] -= 1 / len(batch)
        dW, db, dh = backward(form, (W, b), h, dz)
        found["loss"] += (math.log(total) - z[y]) / len(batch)
        found["head.W"] += np.array(dW)
        found["head.b"] += np.array(db)
        found[part].append(dh)
    found[part] = np.array(found[part])
    return found


def counted(layers, current, replayed, learn="dot", alpha=1.0, once=False):
    """The sum of both expectations; replaying mixes alpha dot + (1 - alpha) cos."""
    among = [y for _, y in [*current, *replayed]]
    if once:
        among = sorted(set(among))
    return weighted(
        (1, expectation(layers, current, among, learn, "current")),
        (alpha, expectation(layers, replayed, among, "dot", "replayed")),
        (1 - alpha, expectation(layers, replayed, among, "cos", "replayed")),
    )
