"""PCR: every anchor of B and R against the proxies of the labels of B and R, one proxy for each label."""

import math

import numpy as np

from reference.predictor import GAMMA, backward, cos


def pcr(layers, current, replayed, temperature=0.09, multiplicity=True):
    """One mean over all anchors, with the gradients by W, b and each feature."""
    W, b = layers["head"]
    anchors = [*current, *replayed]
    proxies = [y for _, y in anchors]
    if not multiplicity:
        proxies = sorted(set(proxies))
    found = {"loss": np.float64(0), "head.W": np.zeros((len(W), len(W[0]))), "head.b": np.zeros(len(b))}
    by_feature = []
    for h, y in anchors:
        similarity = [value / GAMMA / temperature for value in cos((W, b), h)]
        total = 0.0
        for c in proxies:
            total += math.exp(similarity[c])
        ds = [0.0] * len(W)
        for c in proxies:
            ds[c] += math.exp(similarity[c]) / total
        ds[y] -= 1.0
        dz = [value / GAMMA / temperature / len(anchors) for value in ds]
        dW, _, dh = backward("cos", (W, b), h, dz)
        found["loss"] += -math.log(math.exp(similarity[y]) / total) / len(anchors)
        found["head.W"] += np.array(dW)
        by_feature.append(dh)
    found["current"] = np.array(by_feature[: len(current)])
    found["replayed"] = np.array(by_feature[len(current) :])
    return found
