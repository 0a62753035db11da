"""GSS's scores and its replacement, on the layers and mixes of `mir`."""

import math

from reference.mir import mixed

FIRST = 0.1


def gradient(theta, batch, mix):
    """The mean gradient of a batch over all parameters, as one list."""
    total = []
    for x, y in batch:
        gradients = mixed(theta, x, y, mix)[1]
        values = [v for name in sorted(gradients) if name != "h" for v in gradients[name].ravel().tolist()]
        total = [a + v / len(batch) for a, v in zip(total or [0.0] * len(values), values, strict=True)]
    return total


def inner(u, v):
    return sum(a * b for a, b in zip(u, v, strict=True))


def cosine(u, v):
    return inner(u, v) / (math.sqrt(inner(u, u)) * math.sqrt(inner(v, v)))


def scores(theta, batch, parts, learn, replay, likeness=cosine):
    """The largest cosine of each sample, and that of the whole batch, to some batches of the memory."""
    theirs = [gradient(theta, part, replay) for part in parts]
    each = []
    for sample in batch:
        ours = gradient(theta, [sample], learn)
        each.append(max(likeness(ours, other) for other in theirs))
    together = gradient(theta, batch, learn)
    return each, max(likeness(together, other) for other in theirs)


def weights(stored):
    """How likely each slot is a candidate, before normalisation."""
    low, high = min(stored), max(stored)
    found = [(s - low) / (high - low + 0.01) for s in stored]
    return found if any(found) else [1.0] * len(stored)


def replaces(old, new, u):
    """Whether a sample takes the place of a candidate: with probability s'_c / (s'_c + s'_x)."""
    old, new = (old + 1) / 2, (new + 1) / 2
    return old + new > 0 and u < old / (old + new)


def keep(size, held, batch, likeness, places, draws):
    """The memory after a batch; both are lists of pairs (name, score), `places` the candidates that were drawn."""
    held, late = list(held), []
    for sample in batch:
        if len(held) < size:
            held.append(sample)
        else:
            late.append(sample)
    if late and likeness < 0:
        before = list(held)
        for place, sample, u in zip(places, late, draws, strict=False):
            if replaces(before[place][1], sample[1], u):
                held[place] = sample
    return held
