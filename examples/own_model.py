# Your own model on your own stream: three lines of Evenhand in a plain script.
#
#     python examples/own_model.py
#
# Each sample is a vector of 64 numbers from one of ten clusters; two new clusters arrive every hundred batches.

import torch
from torch import nn

from evenhand import Learner

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))  # any module that ends in a Linear

# The learner replaces that last layer by a head that starts empty and grows with every new label.
learner = Learner(model, method="uer", memory=200)

centres = torch.randn(10, 64)
names = [f"cluster {letter}" for letter in "ABCDEFGHIJ"]  # labels need not be numbers


def samples(low, high, count):
    which = torch.randint(low, high, (count,))
    return centres[which] + 2.5 * torch.randn(count, 64), [names[i] for i in which]


for stage in range(5):
    for _ in range(100):
        x, y = samples(2 * stage, 2 * stage + 2, 10)  # the stream holds only the two newest clusters ...
        learner.observe(x, y)
    x, y = samples(0, 2 * stage + 2, 1000)  # ... but the test covers every cluster so far
    correct = sum(guess == truth for guess, truth in zip(learner.predict(x), y, strict=True))
    print(f"after {len(learner.labels)} clusters: {correct / 10:.1f} % correct")

# One file without pickle. To resume: Learner.load("learner.safetensors", network=...), with a model built as above.
learner.save("learner.safetensors")
