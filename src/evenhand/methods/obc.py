"""OBC: online bias correction.

ER, but after each step one more batch of the memory moves the head alone, so that the classifier forgets the bias which
the stream gave it:

    W, b <- W, b - lambda grad_{W, b} E_{B_M'}[l(p(x), y)],   features detached

Deviations
----------
1. Its code could not be read; the size of the second batch, that of the replay batch, is inferred.
2. The features of the second batch use batch statistics and move no running statistics.
3. The first step moves the head too. Its abstract ends with the advice to optimise the output layer separately from the
   others: `separate=True` takes back what the first step did to the head, so that the memory alone moves it.

Cost: 10 more samples forward, 70 of ER's 60 (the paper counts 1.5).

Chrysakis and Moens, Online Bias Correction for Task-Free Continual Learning, ICLR 2023.
"""

import copy

import torch

from evenhand import errors
from evenhand.batch import Losses
from evenhand.learner import Learner
from evenhand.method import Method
from evenhand.methods.er import Descend, er
from evenhand.parts import part
from evenhand.registry import register


@part
class Corrected(Descend):
    """A step of ER, then one of the head alone."""

    def __call__(self, learner: Learner, losses: Losses) -> None:
        Descend.__call__(self, learner, losses)
        self.correct(learner)

    def correct(self, learner: Learner) -> None:
        """Let one more batch of the memory move the head."""
        second = learner.recall(learner.memory.sample(learner.replay, learner.generators["retrieval"]))
        if second:
            with learner.trial(), torch.no_grad():
                [h] = learner.features(second)
            learner.descend(learner.expect("replay", h, second.cross_entropy), learner.network.head)


@part
class Separated(Corrected):
    """A step of ER that leaves the head as it was, then one of the head alone."""

    def __call__(self, learner: Learner, losses: Losses) -> None:
        head = learner.network.head
        before = copy.deepcopy(head.state_dict())
        Descend.__call__(self, learner, losses)
        if len(learner.memory):
            head.load_state_dict(before)
        self.correct(learner)


@register(cost=70 / 60)
def obc(separate: bool = False) -> Method:
    """Online bias correction: after each step one more memory batch moves the head alone (the UER paper counts 1.5)."""
    return er().but(update=Separated() if errors.truth("The 'separate' parameter of obc", separate) else Corrected())
