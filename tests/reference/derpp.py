"""DER++: CE(B) + a MSE(z(R1), stored logits) + b CE(R2)."""

import math

import numpy as np

from reference.losses import expectation, weighted
from reference.predictor import backward, dot


def mean_squared_error(layers, batch, stored, part):
    """The mean of (z - z_stored)^2 over the entries that were stored; NaN marks a class that was not known then.

    Both are dot logits. `stored` has one row for each feature of the batch.
    """
    W, b = layers["head"]
    compared = 0
    for row in stored:
        for value in row:
            compared += 0 if math.isnan(value) else 1
    found = {
        "loss": np.float64(0),
        "head.W": np.zeros((len(W), len(W[0]))),
        "head.b": np.zeros(len(b)),
        part: np.zeros((len(batch), len(W[0]))),
    }
    for i, ((h, _), row) in enumerate(zip(batch, stored, strict=True)):
        z = dot((W, b), h)
        dz = [0.0] * len(z)
        for c, value in enumerate(row):
            if not math.isnan(value):
                found["loss"] += (z[c] - value) ** 2 / compared
                dz[c] = 2 * (z[c] - value) / compared
        dW, db, dh = backward("dot", (W, b), h, dz)
        found["head.W"] += np.array(dW)
        found["head.b"] += np.array(db)
        found[part][i] = dh
    return found


def derpp(layers, current, first, second, stored, a, b, alpha=None):
    """With alpha, cos on B and the mix of both forms on R2."""
    terms = [(1, expectation(layers, current, "dot" if alpha is None else "cos", "current"))]
    terms.append((a, mean_squared_error(layers, first, stored, "first")))
    for weight, form in [(1, "dot")] if alpha is None else [(alpha, "dot"), (1 - alpha, "cos")]:
        terms.append((b * weight, expectation(layers, second, form, "second")))
    return weighted(*terms)
