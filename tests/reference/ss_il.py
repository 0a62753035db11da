"""SS-IL: new classes among new, old among old, and distillation stage by stage on the replay."""

import math

import numpy as np

from reference.er_ace import expectation_among
from reference.losses import weighted
from reference.predictor import backward, dot, softmax


def distillation(layers, teacher, batch, stages, temperature=2.0, part="replayed"):
    """E over the batch of sum_t KL(softmax_t(z_old / T) || softmax_t(z / T)); `stages` lists the classes of each."""
    W, b = layers["head"]
    found = {
        "loss": np.float64(0),
        "head.W": np.zeros((len(W), len(W[0]))),
        "head.b": np.zeros(len(b)),
        part: np.zeros((len(batch), len(W[0]))),
    }
    for i, (h, _) in enumerate(batch):
        z, z_old = dot((W, b), h), dot(teacher, h)
        dz = [0.0] * len(z)
        for classes in stages:
            p = softmax([z[c] / temperature for c in classes])
            p_old = softmax([z_old[c] / temperature for c in classes])
            for k, c in enumerate(classes):
                found["loss"] += p_old[k] * (math.log(p_old[k]) - math.log(p[k])) / len(batch)
                dz[c] = (p[k] - p_old[k]) / temperature
        dW, db, dh = backward("dot", (W, b), h, dz)
        found["head.W"] += np.array(dW) / len(batch)
        found["head.b"] += np.array(db) / len(batch)
        found[part][i] = np.array(dh) / len(batch)
    return found


def ss_il(layers, current, replayed, teacher, stages, alpha=None, **distilled):
    """CE(B) among the current stage's classes, CE(R) among the ones before, and the distillation on R.

    With alpha, cos on B and the mix of both forms on R; the distillation stays on dot.
    """
    old = {c for classes in stages for c in classes}
    new = set(range(len(layers["head"][1]))) - old
    terms = [(1, expectation_among(layers, current, "dot" if alpha is None else "cos", "current", new))]
    for weight, form in [(1, "dot")] if alpha is None else [(alpha, "dot"), (1 - alpha, "cos")]:
        terms.append((weight, expectation_among(layers, replayed, form, "replayed", old)))
    if teacher is not None:
        terms.append((1, distillation(layers, teacher, replayed, stages, **distilled)))
    return weighted(*terms)
