"""The losses of ER, LUCIR, UER-A and UER with their gradients.

A batch is a list of pairs (h, y). A loss comes as a dict: "loss", the gradients by the layers, "head.W" and so on, and
"current" and "replayed", the gradients by each feature of the two batches.
"""

import numpy as np

from reference.predictor import sample_loss


def expectation(layers, batch, form, part, couple="head"):
    """E over the batch of l(p^form(x), y)."""
    total = {"loss": np.float64(0), part: np.zeros((len(batch), len(batch[0][0])))}
    for i, (h, y) in enumerate(batch):
        loss, gradients = sample_loss(layers, h, y, form, couple)
        total["loss"] += loss / len(batch)
        total[part][i] = np.array(gradients.pop("h")) / len(batch)
        for name, gradient in gradients.items():
            total[name] = total.get(name, 0.0) + np.array(gradient) / len(batch)
    return total


def weighted(*terms):
    """The sum of weight * loss over pairs (weight, loss)."""
    total = {}
    for weight, loss in terms:
        for name, value in loss.items():
            total[name] = total.get(name, 0.0) + weight * value
    return total


def er(layers, current, replayed, couple="head"):
    """Eq. 1 and 3, the expectation over the union read as a sum of two means."""
    learning = expectation(layers, current, "dot", "current", couple)
    replaying = expectation(layers, replayed, "dot", "replayed", couple)
    return weighted((1, learning), (1, replaying))


def lucir(layers, current, replayed, couple="head"):
    """Eq. 4 and 5, read in the same way."""
    learning = expectation(layers, current, "cos", "current", couple)
    replaying = expectation(layers, replayed, "cos", "replayed", couple)
    return weighted((1, learning), (1, replaying))


def uer(layers, current, replayed, alpha, couple="head"):
    """Eq. 10, 11 and 12."""
    learning = expectation(layers, current, "cos", "current", couple)
    by_norm_and_angle = expectation(layers, replayed, "dot", "replayed", couple)
    by_angle = expectation(layers, replayed, "cos", "replayed", couple)
    return weighted((1, learning), (alpha, by_norm_and_angle), (1 - alpha, by_angle))


def uer_a(layers, current, replayed, couple="head"):
    """Row 8 of Table 1: learned by cosine, replayed by dot product."""
    learning = expectation(layers, current, "cos", "current", couple)
    replaying = expectation(layers, replayed, "dot", "replayed", couple)
    return weighted((1, learning), (1, replaying))


def uer_full(layers, current, replayed, couple="head"):
    """UER without a scale: both losses of the replay in full."""
    learning = expectation(layers, current, "cos", "current", couple)
    by_norm_and_angle = expectation(layers, replayed, "dot", "replayed", couple)
    by_angle = expectation(layers, replayed, "cos", "replayed", couple)
    return weighted((1, learning), (1, by_norm_and_angle), (1, by_angle))


def union(layers, current, replayed, form):
    """The reading that is not taken: one mean over the union of both batches."""
    n, m = len(current), len(replayed)
    learning = expectation(layers, current, form, "current")
    replaying = expectation(layers, replayed, form, "replayed")
    return weighted((n / (n + m), learning), (m / (n + m), replaying))
