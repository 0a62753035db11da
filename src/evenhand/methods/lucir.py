"""LUCIR, as the UER paper defines it: cosine logits everywhere.

ER, but the norm of features and weights and the bias are left out in learning, replaying and testing:

    L = E_{B}[l(p_cos(x), y)] + E_{B_M}[l(p_cos(x), y)]                                (Eq. 4, 5)

Deviations
----------
1. Eq. 4 takes one expectation over the union of B and B_M; here L is the sum of the two means, as in ER.
2. The distillation and margin losses of LUCIR's own paper are left out, as the UER paper leaves them out.
3. The scale gamma is fixed at 10, where LUCIR's own paper learns it.

Cost: that of ER, C_D = 1.

Hou et al., Learning a Unified Classifier Incrementally via Rebalancing, CVPR 2019.
"""

from evenhand.core.method import Method
from evenhand.core.registry import register
from evenhand.core.scoring import COS
from evenhand.methods.er import er


@register(cost=1)
def lucir() -> Method:
    """Cosine logits in learning, replaying and testing."""
    return er().but(scoring=COS)
