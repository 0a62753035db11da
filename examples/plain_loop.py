# UER in a loop of your own, without the learner: the head with two forms of logits, the loss, and forty lines of torch.
#
#     python examples/plain_loop.py
#
# Take this way if a framework (Lightning, Avalanche) owns the loop, or to see all that UER is. The draws come from the
# learner's generators, so the weights at the end are those of Learner(model, "uer", memory=200), to the bit.

import torch
from torch import nn

from evenhand import DualLinear, Stream, losses
from evenhand.core.draws import distinct, generator
from evenhand.datasets import load

torch.manual_seed(0)
trunk = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU())
head = DualLinear(256)  # one W, read as dot products or as cosines; it starts without rows
rows, retrieval, storage = (generator(0, purpose) for purpose in ("head", "retrieval", "storage"))

stream = Stream.split(load("fashion-cut"), stages=5, seed=0)
labels, memory, seen = {}, [], 0  # the row of each label, at most 200 samples, how many came by
for step in stream.steps():
    new = len(labels)
    y = torch.tensor([labels.setdefault(label, len(labels)) for label in step.y.tolist()])
    head.grow(len(labels) - new, rows)

    # Stream and memory go through the trunk together; the loss treats them differently, and that is all of UER.
    past = [memory[slot] for slot in distinct(10, len(memory), retrieval)]
    h = trunk(torch.stack([*step.x, *(x for x, _ in past)]) / 255)
    replay = (h[len(y) :], torch.stack([y for _, y in past])) if past else None
    loss = losses.uer(head, (h[: len(y)], y), replay, alpha=0.5)

    # Rows are new parameters after every growth, so plain SGD, which has no state, is made anew. For an optimizer with
    # a state, give the head all its rows at once: DualLinear(256, rows=10).
    optimizer = torch.optim.SGD([*trunk.parameters(), *head.parameters()], lr=0.1)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

    # A reservoir: every sample of the stream is kept with the same probability.
    for x, row, u in zip(step.x, y, torch.rand(len(y), generator=storage, dtype=torch.float64), strict=True):
        seen += 1
        if len(memory) < 200:
            memory.append((x, row))
        elif (slot := int(u * seen)) < 200:
            memory[slot] = x, row

# The test is by dot product, which has regained the norms that the cosine leaves alone.
names = torch.tensor(list(labels))
for stage in range(5):
    x, y = stream.test(stage)
    correct = names[head(trunk(x / 255), "dot").argmax(1)] == y
    print(f"stage {stage + 1}: {100 * correct.float().mean():.1f} %")
