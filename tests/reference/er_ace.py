"""ER-ACE: the stream is learned among the classes that occur in its batch, the replay among all of them."""

import math

import numpy as np

from reference.losses import weighted
from reference.predictor import FORMS, backward


def cross_entropy_among(z, y, classes):
    """-log p_y with the softmax over a set of classes alone; a logit outside it has no gradient."""
    top = max(z[c] for c in classes)
    total = 0.0
    for c in classes:
        total += math.exp(z[c] - top)
    dz = [0.0] * len(z)
    for c in classes:
        dz[c] = math.exp(z[c] - top) / total - (1.0 if c == y else 0.0)
    return top + math.log(total) - z[y], dz


def expectation_among(layers, batch, form, part, classes):
    """E over the batch of the loss among some classes, with the gradients by W, b and each feature."""
    W, b = layers["head"]
    found = {
        "loss": np.float64(0),
        "head.W": np.zeros((len(W), len(W[0]))),
        "head.b": np.zeros(len(b)),
        part: np.zeros((len(batch), len(W[0]))),
    }
    for i, (h, y) in enumerate(batch):
        loss, dz = cross_entropy_among(FORMS[form]((W, b), h), y, classes)
        dW, db, dh = backward(form, (W, b), h, dz)
        found["loss"] += loss / len(batch)
        found["head.W"] += np.array(dW) / len(batch)
        found["head.b"] += np.array(db) / len(batch)
        found[part][i] = np.array(dh) / len(batch)
    return found


def er_ace(layers, current, replayed, head="cos", present=None):
    """CE(B) among the classes present in B, CE(R) among all."""
    everything = set(range(len(layers["head"][1])))
    present = present or {y for _, y in current}
    learning = expectation_among(layers, current, head, "current", present)
    replaying = expectation_among(layers, replayed, head, "replayed", everything)
    return weighted((1, learning), (1, replaying))


def er_ace_uer(layers, current, replayed, alpha):
    """The same with cos on B and the mix of both forms on R."""
    everything = set(range(len(layers["head"][1])))
    learning = expectation_among(layers, current, "cos", "current", {y for _, y in current})
    dot = expectation_among(layers, replayed, "dot", "replayed", everything)
    cos = expectation_among(layers, replayed, "cos", "replayed", everything)
    return weighted((1, learning), (alpha, dot), (1 - alpha, cos))
