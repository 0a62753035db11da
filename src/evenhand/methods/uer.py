"""UER: unbias experience replay.

ER, but the batch of the stream is learned by the angle of the logits alone, the memory is replayed by angle and norm,
and the test uses both:

    L_c = E_{B}[l(p_cos(x), y)]                                                        (Eq. 11)
    L_p = E_{B_M}[alpha l(p_dot(x), y) + (1 - alpha) l(p_cos(x), y)]                    (Eq. 12)
    y^  = argmax_c p_dot(x)[c], c in C_t                                               (Eq. 13)

New classes are learned in the angle, where the bias towards them arises; only replayed samples change the bias b, and
they raise the norm of the old classes, so the dot product treats old and new with an even hand. UER-A is alpha = 1.

Deviations
----------
1. alpha = 0.5 by default, where the paper finds the best results; the paper chooses it on held-out training data.
2. Line 9 of Algorithm 1 prints theta + lambda grad L; we read it as descent.
3. The paper says of UER-A only that it lacks "scale adjustment". We read this as alpha = 1, which is row 8 of Table 1;
   with `full=True` both losses count in full, L_p = E_{B_M}[l(p_dot(x), y) + l(p_cos(x), y)].

Cost: that of ER, C_D = 1.

Lin et al., UER: A Heuristic Bias Addressing Approach for Online Continual Learning, ACM MM 2023.
"""

from dataclasses import replace

from evenhand import errors
from evenhand.core.method import Method
from evenhand.core.registry import register
from evenhand.core.scoring import Couple, Mix, Scoring
from evenhand.methods.er import er


def unbiased(alpha: float, couple: Couple = "head") -> Scoring:
    """Learn by the angle, replay by angle and norm, test by both."""
    errors.number("The 'alpha' parameter of uer", alpha, 0, 1)
    return Scoring(learn=Mix(cos=1), replay=Mix(dot=alpha, cos=1 - alpha), test="dot", couple=couple)


@register(cost=1)
def uer(alpha: float = 0.5, couple: Couple = "head") -> Method:
    """Unbias experience replay: learn by cosine, replay by dot product and cosine, test by dot product."""
    return er().but(scoring=unbiased(alpha, couple))


@register(cost=1)
def uer_a(full: bool = False) -> Method:
    """UER without the cosine in replaying (alpha = 1), the paper's ablation; or with both losses in full."""
    full = errors.truth("The 'full' parameter of uer_a", full)
    scoring = unbiased(alpha=1)
    return er().but(scoring=replace(scoring, replay=Mix(dot=1, cos=1)) if full else scoring)
