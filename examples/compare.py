# ER against UER in a dozen lines: one stream, two learners, the same random draws for both.
#
#     python examples/compare.py
#
# One seed, the small CNN, a memory of 200 images: seconds on a laptop, and no proof. `make demo` trains the paper's
# network with two seeds, and results/README.md has six.

import torch

from evenhand import Learner, Stream
from evenhand.backbones import SmallCNN
from evenhand.datasets import load

# Ten classes in five stages of two. The seed fixes their order and the order of the samples; no sample comes twice.
stream = Stream.split(load("fashion-cut"), stages=5, seed=0)

learners = {}
for method in ("er", "uer"):
    torch.manual_seed(0)  # equal initial weights; all other draws come from the learner's own seed
    learners[method] = Learner(SmallCNN((1, 28, 28)), method, memory=200)

# Both learners see the same batches at the same time, so any difference at the end is due to the method.
for step in stream.steps():
    for learner in learners.values():
        learner.observe(step.x, step.y)

# Each column is one stage, the oldest on the left: ER leans to the right, UER should be more even.
for method, learner in learners.items():
    accuracies = []
    for stage in range(5):
        x, y = stream.test(stage)
        accuracies.append(100 * (torch.tensor(learner.predict(x)) == y).float().mean().item())
    print(f"{method:4}", "  ".join(f"{a:5.1f}" for a in accuracies), f"  mean {sum(accuracies) / 5:.1f} %")
