"""OBC: a step of ER, then a step of the tested head alone on one more batch of the memory."""

import numpy as np

from reference.losses import er, expectation, uer, weighted


def moved(layers, gradients, lr):
    W, b = layers["head"]
    return {
        "head": ((np.array(W) - lr * gradients["head.W"]).tolist(), (np.array(b) - lr * gradients["head.b"]).tolist())
    }


def obc(layers, current, replayed, second, lr, alpha=None, separate=True):
    """W and b after both steps; the features of the second batch are given, and stay.

    With alpha, cos on B and the mix of both forms on either batch of the memory. If separate, the first step leaves the
    tested head, as it does when another head takes it.
    """
    first = er(layers, current, replayed) if alpha is None else uer(layers, current, replayed, alpha)
    if not separate:
        layers = moved(layers, first, lr)
    return moved(layers, correction(layers, second, alpha), lr)


def correction(layers, second, alpha=None):
    """The gradients by which the second step moves the head."""
    if alpha is None:
        return expectation(layers, second, "dot", "second")
    dot, cos = (expectation(layers, second, form, "second") for form in ("dot", "cos"))
    return weighted((alpha, dot), (1 - alpha, cos))
