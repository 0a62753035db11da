"""Any scoring: choose the logits of learning, replaying and testing separately; `dot` and `cos` are ways to test.

ER, but every phase uses dot products or cosines, as chosen; Table 1 of the UER paper compares all eight combinations:

    scored()                                      ER
    scored(learn='cos', replay='cos', test='cos') LUCIR
    scored(learn='cos')                           UER-A

The losses are those of Eq. 3 with the logits of Eq. 1 (dot) or Eq. 5 (cos).

Cost: that of ER, C_D = 1.

Lin et al., UER: A Heuristic Bias Addressing Approach for Online Continual Learning, ACM MM 2023.
"""

from dataclasses import replace

from evenhand import errors
from evenhand.core.method import Method
from evenhand.core.registry import register, way
from evenhand.core.scoring import Form, Mix, Scoring
from evenhand.methods.er import er


@register(cost=1)
def scored(learn: Form = "dot", replay: Form = "dot", test: Form = "dot") -> Method:
    """Dot products or cosines in learning, replaying and testing, each chosen on its own (Table 1)."""
    for name, form in (("learn", learn), ("replay", replay), ("test", test)):
        errors.choice(f"The '{name}' parameter of scored", form, ("dot", "cos"))
    return er().but(scoring=Scoring(learn=Mix(**{learn: 1}), replay=Mix(**{replay: 1}), test=test))


@way
def dot(method: Method) -> Method:
    """Any method, tested by dot products."""
    return method.but(scoring=replace(method.scoring, test="dot"))


@way
def cos(method: Method) -> Method:
    """Any method, tested by cosines."""
    return method.but(scoring=replace(method.scoring, test="cos"))
