"""ER-WA: weights of new classes scaled to the mean norm of the old ones, and its distillation."""

from reference.losses import er, uer, weighted
from reference.predictor import norm
from reference.ss_il import distillation


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


def distilled(layers, current, replayed, teacher, old, alpha=None, share=None, **mutation):
    """(1 - s) CE + s KD on B and on R, the teacher's classes being the first `old`; with alpha, the CE of UER."""
    share = old / len(layers["head"][1]) if share is None else share
    plain = er(layers, current, replayed) if alpha is None else uer(layers, current, replayed, alpha)
    taught = [
        distillation(layers, teacher, batch, [range(old)], part=part, **mutation)
        for batch, part in ((current, "current"), (replayed, "replayed"))
    ]
    return weighted((1 - share, plain), *((share, term) for term in taught))
