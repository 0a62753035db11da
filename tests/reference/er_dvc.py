"""ER-DVC: cross-entropy of two views, the agreement of their predictions, and the score of its retrieval."""

import math

from reference.predictor import FORMS, cross_entropy, dot, softmax


def q_logits(q, z, z_t):
    """An MLP with ReLU on the concatenation of both logits; q is a pair of layers."""
    into, out = q
    hidden = [max(0.0, value) for value in dot(into, [*z, *z_t])]
    return dot(out, hidden)


def batch_loss(head, q, views, views_t, y, mix, weight=4.0, entropy=1 / 3):
    """All terms of one batch; `mix` lists the forms of the cross-entropy with their weights."""
    n, classes = len(y), len(head[1])
    total = 0.0
    for view in (views, views_t):
        for i in range(n):
            for form, share in mix:
                total += share * cross_entropy(FORMS[form](head, view[i]), y[i])[0] / n
    p, p_t, p_q = [], [], []
    for i in range(n):
        z, z_t = dot(head, views[i]), dot(head, views_t[i])
        p.append(softmax(z))
        p_t.append(softmax(z_t))
        p_q.append(softmax(q_logits(q, z, z_t)))
    for predictions in (p, p_t, p_q):
        for c in range(classes):
            mean = sum(prediction[c] for prediction in predictions) / n
            total += entropy * mean * math.log(mean)
    for other in (p, p_t):
        for i in range(n):
            for c in range(classes):
                total += weight * abs(p_q[i][c] - other[i][c]) / (n * classes)
    return total


def er_dvc(head, q, current, replayed, alpha=None, **options):
    """Both batches, each a triple (views, views_t, y). With alpha, cos on B and the mix of both forms on R."""
    learn = [("dot", 1)] if alpha is None else [("cos", 1)]
    replay = [("dot", 1)] if alpha is None else [("dot", alpha), ("cos", 1 - alpha)]
    return batch_loss(head, q, *current, learn, **options) + batch_loss(head, q, *replayed, replay, **options)


def interference(head, h, y):
    """|p - onehot(y)|_1 |h|_1."""
    p = softmax(dot(head, h))
    gap = sum(abs(p[c] - (1.0 if c == y else 0.0)) for c in range(len(p)))
    return gap * sum(abs(value) for value in h)
