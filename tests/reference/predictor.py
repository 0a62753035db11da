"""Linear layers in their two forms, forward and backward, one scalar at a time.

A layer is a pair (W, b), W a list of rows. Every function takes and returns plain lists of Python floats.
"""

import math

GAMMA = 10.0
EPSILON = 1e-5


def inner(u, v):
    total = 0.0
    for a, b in zip(u, v, strict=True):
        total += a * b
    return total


def norm(u):
    return math.sqrt(inner(u, u))


def dot(layer, h):
    """dot_i = w_i . h + b_i."""
    W, b = layer
    return [inner(W[i], h) + b[i] for i in range(len(W))]


def cos(layer, h):
    """cos_i = gamma w_i . h / ((|w_i| + epsilon) (|h| + epsilon)); b has no part in it."""
    W, _ = layer
    return [GAMMA * inner(w, h) / ((norm(w) + EPSILON) * (norm(h) + EPSILON)) for w in W]


FORMS = {"dot": dot, "cos": cos}


def backward(form, layer, h, dz):
    """From dL/dz, the gradients (dL/dW, dL/db, dL/dh) of z = form(layer, h)."""
    W, b = layer
    dW = [[0.0] * len(h) for _ in W]
    db = [0.0] * len(b)
    dh = [0.0] * len(h)
    for i, w in enumerate(W):
        for k in range(len(h)):
            if form == "dot":
                dW[i][k] = dz[i] * h[k]
                dh[k] += dz[i] * w[k]
            else:
                n, m = norm(w) + EPSILON, norm(h) + EPSILON
                dW[i][k] = dz[i] * GAMMA * (h[k] / (n * m) - inner(w, h) * _unit(w, k) / (n * n * m))
                dh[k] += dz[i] * GAMMA * (w[k] / (n * m) - inner(w, h) * _unit(h, k) / (n * m * m))
        if form == "dot":
            db[i] = dz[i]
    return dW, db, dh


def _unit(v, k):
    """The derivative of |v| by v_k, 0 at the origin."""
    return v[k] / norm(v) if norm(v) else 0.0


def softmax(z):
    top = max(z)
    powers = [math.exp(value - top) for value in z]
    return [power / sum(powers) for power in powers]


def cross_entropy(z, y):
    """l(p, y) = -log p_y, and its gradient p - onehot(y)."""
    p = softmax(z)
    return -math.log(p[y]), [p[i] - (1.0 if i == y else 0.0) for i in range(len(z))]


def sample_loss(layers, h, y, form, couple="head"):
    """The loss of one feature, and the gradients by layer name and "h".

    `layers` has a "head" and perhaps a "neck" before it, followed by ReLU. The coupled layers take the given form,
    the others stay dot.
    """
    if "neck" not in layers:
        loss, dz = cross_entropy(FORMS[form](layers["head"], h), y)
        dW, db, dh = backward(form, layers["head"], h, dz)
        return loss, {"head.W": dW, "head.b": db, "h": dh}
    neck_form = form if couple in ("neck", "both") else "dot"
    head_form = form if couple in ("head", "both") else "dot"
    before = FORMS[neck_form](layers["neck"], h)
    after = [value if value > 0 else 0.0 for value in before]
    loss, dz = cross_entropy(FORMS[head_form](layers["head"], after), y)
    dW, db, d_after = backward(head_form, layers["head"], after, dz)
    d_before = [d_after[i] if before[i] > 0 else 0.0 for i in range(len(before))]
    dV, dc, dh = backward(neck_form, layers["neck"], h, d_before)
    return loss, {"head.W": dW, "head.b": db, "neck.W": dV, "neck.b": dc, "h": dh}
