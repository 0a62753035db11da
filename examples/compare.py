# ER against UER in a dozen lines: a stream, two learners, the same draws for both.
#
#     python examples/compare.py
#
# One seed, the small CNN, a memory of 200: seconds on a laptop. `make demo` does it properly.

import torch

from evenhand import Learner, Stream
from evenhand.backbones import SmallCNN
from evenhand.datasets import load

stream = Stream.split(load("fashion-cut"), stages=5, seed=0)

learners = {}
for method in ("er", "uer"):
    torch.manual_seed(0)  # the same initial weights; all other draws come from the learner's own seed
    learners[method] = Learner(SmallCNN((1, 28, 28)), method, memory=200)

for step in stream.steps():
    for learner in learners.values():
        learner.observe(step.x, step.y)

for name, learner in learners.items():
    right = []
    for stage in range(5):
        x, y = stream.test(stage)
        right.append(100 * (torch.tensor(learner.predict(x)) == y).float().mean().item())
    print(f"{name:4}", "  ".join(f"{r:5.1f}" for r in right), f"  mean {sum(right) / 5:.1f} %")
