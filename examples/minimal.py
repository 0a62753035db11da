# The smallest loop: a stream, a learner, and what it still knows at the end.
#
#     python examples/minimal.py

import torch
from torch import nn

from evenhand import Learner, Stream
from evenhand.datasets import load

torch.manual_seed(0)  # of the model alone: all draws of the learner come from its own seed, 0 by default
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))

# The last layer is replaced by a head that starts empty. Every new label gets a row of its own when it first comes.
learner = Learner(model, method="uer", memory=200)

# Ten classes of clothes, two at a time; keep_partial would also learn what does not fill a batch at the end of a stage.
data = load("fashion-cut")
stream = Stream.split(data, stages=5, seed=0)
for step in stream.steps():
    learner.observe(step.x, data.names(step.y))  # ten images, seen once; labels may be anything that JSON can hold

for stage in range(5):
    x, y = stream.test(stage)
    correct = sum(guess == name for guess, name in zip(learner.predict(x), data.names(y), strict=True))
    names = [data.classes[number] for number in stream.stages[stage].classes]
    print(f"{' and '.join(names)}: {100 * correct / len(y):.0f} %")
print(learner)

# It prints, the oldest classes first:
#
#     Sandal and Pullover: 73 %
#     Shirt and Coat: 51 %
#     Ankle boot and Dress: 87 %
#     Trouser and T-shirt: 87 %
#     Bag and Sneaker: 84 %
#     Learner(10 classes, 500 steps, Memory(200 of 200 slots))
