# Your own model on your own stream: three lines of Evenhand in a plain script.
#
#     python examples/own_model.py
#
# The stream here is 64 numbers a sample from ten clusters, two new ones every hundred batches.

import torch
from torch import nn

from evenhand import Learner

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))  # any module that ends in a Linear

learner = Learner(model, method="uer", memory=200)  # its head starts empty and grows with the labels it meets

centres = torch.randn(10, 64)
names = [f"cluster {letter}" for letter in "ABCDEFGHIJ"]


def samples(low, high, count):
    which = torch.randint(low, high, (count,))
    return centres[which] + 2.5 * torch.randn(count, 64), [names[i] for i in which]


for stage in range(5):
    for _ in range(100):
        x, y = samples(2 * stage, 2 * stage + 2, 10)  # only the two newest clusters ever come
        learner.observe(x, y)
    x, y = samples(0, 2 * stage + 2, 1000)  # but it is asked about all it has ever seen
    right = sum(guess == truth for guess, truth in zip(learner.predict(x), y, strict=True))
    print(f"after {len(learner.labels)} clusters: {right / 10:.1f} % right")

learner.save("learner.safetensors")  # one file, no pickle; Learner.load(path, network=a model built like this) goes on
