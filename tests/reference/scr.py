"""SCR: the supervised contrastive loss over projections, and the nearest class mean."""

import math

from reference.predictor import dot, inner, norm


def normalised(v):
    length = norm(v)
    return [value / length for value in v]


def projected(first, second, h):
    """Two linear layers with ReLU between them, then L2-normalised."""
    hidden = [max(0.0, value) for value in dot(first, h)]
    return normalised(dot(second, hidden))


def supervised_contrastive(z, y, temperature, itself=False):
    """The mean over anchors i of -1/|P(i)| sum over positives p of log softmax over the others of z_i . z_p / T."""
    total = 0.0
    for i in range(len(z)):
        powers = 0.0
        for a in range(len(z)):
            if a != i or itself:
                powers += math.exp(inner(z[i], z[a]) / temperature)
        positives = [p for p in range(len(z)) if p != i and y[p] == y[i]]
        loss = 0.0
        for p in positives:
            loss -= math.log(math.exp(inner(z[i], z[p]) / temperature) / powers)
        total += loss / len(positives)
    return total / len(z)


def scr(first, second, current, replayed, temperature=0.07, **mutation):
    """All views of B and of R together."""
    anchors = [*current, *replayed]
    z = [projected(first, second, h) for h, _ in anchors]
    return supervised_contrastive(z, [y for _, y in anchors], temperature, **mutation)


def nearest_mean(memories, h):
    """The class whose renormalised mean of normalised features is nearest; `memories` are pairs (h, y)."""
    best, nearest = -math.inf, None
    for c in sorted({y for _, y in memories}):
        features = [normalised(feature) for feature, y in memories if y == c]
        mean = normalised([sum(column) / len(features) for column in zip(*features, strict=True)])
        score = inner(normalised(h), mean)
        if score > best:
            best, nearest = score, c
    return nearest
