"""ER-WA: weights of new classes scaled to the mean norm of the old ones."""

from reference.predictor import norm


def aligned(W, old, new):
    """w_new * mean|w_old| / mean|w_new|; `old` and `new` are lists of classes, the others stay."""
    if not old or not new:
        return [list(w) for w in W]
    of_old = sum(norm(W[c]) for c in old) / len(old)
    of_new = sum(norm(W[c]) for c in new) / len(new)
    result = []
    for c, w in enumerate(W):
        result.append([value * of_old / of_new for value in w] if c in new else list(w))
    return result
