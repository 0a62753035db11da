"""A whole training against a plain loop of torch calls, with the same draws."""

import pytest
import torch
import torch.nn.functional as F

from evenhand.core.draws import generator

LR, SIZE, REPLAY = 0.1, 30, 10


def dot(h, W, b):
    return F.linear(h, W, b)


def cos(h, W, b):
    return 10 * F.linear(h / (h.norm(dim=1, keepdim=True) + 1e-5), W / (W.norm(dim=1, keepdim=True) + 1e-5))


LOSSES = {
    "er": (lambda h, W, b, y: F.cross_entropy(dot(h, W, b), y),) * 2,
    "lucir": (lambda h, W, b, y: F.cross_entropy(cos(h, W, b), y),) * 2,
    "uer(alpha=0.3)": (
        lambda h, W, b, y: F.cross_entropy(cos(h, W, b), y),
        lambda h, W, b, y: 0.3 * F.cross_entropy(dot(h, W, b), y) + 0.7 * F.cross_entropy(cos(h, W, b), y),
    ),
}


def drawn_slots(filled, retrieval):
    """The first swaps of a Fisher-Yates shuffle of all filled slots."""
    slots = list(range(filled))
    count = min(REPLAY, filled)
    for i, u in enumerate(torch.rand(count, generator=retrieval, dtype=torch.float64).tolist()):
        j = i + int(u * (filled - i))
        slots[i], slots[j] = slots[j], slots[i]
    return slots[:count]


def plain_loop(trunk, batches, dim, losses):
    """ER as anyone would write it: lists for a memory, W and b as two tensors."""
    retrieval, storage, head = (generator(0, purpose) for purpose in ("retrieval", "storage", "head"))
    learn, rehearse = losses
    W, b = torch.empty(0, dim), torch.empty(0)
    memory, seen, rows = [], 0, {}
    for x, labels in batches:
        y = [rows.setdefault(label, len(rows)) for label in labels]
        while len(b) < len(rows):
            fresh = (torch.rand(dim + 1, generator=head) * 2 - 1) / dim**0.5
            W, b = torch.cat([W, fresh[None, :-1]]), torch.cat([b, fresh[-1:]])
        W, b = W.detach().requires_grad_(), b.detach().requires_grad_()
        past = [memory[slot] for slot in drawn_slots(len(memory), retrieval)]
        shown = torch.stack([*x, *(image for image, _ in past)]).to(memory_format=torch.channels_last) / 255
        h = trunk(shown)
        loss = learn(h[: len(x)], W, b, torch.tensor(y))
        if past:
            loss = loss + rehearse(h[len(x) :], W, b, torch.tensor([label for _, label in past]))
        parameters = [*trunk.parameters(), W, b]
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.add_(gradient, alpha=-LR)
        kept = torch.rand(len(x), generator=storage, dtype=torch.float64).tolist()
        for image, label, u in zip(x, y, kept, strict=True):
            seen += 1
            if len(memory) < SIZE:
                memory.append((image, label))
            elif int(u * seen) < SIZE:
                memory[int(u * seen)] = (image, label)
    return W, b, memory


@pytest.mark.parametrize("backbone", ["cnn", "mlp"])
@pytest.mark.parametrize("method", LOSSES)
def test_a_plain_loop_learns_the_same(method, backbone, learner, images):
    batches = images(4, classes=2) + images(6, seed=1)
    ours, theirs = learner(method, backbone, memory=SIZE), learner(method, backbone).network.trunk
    for x, y in batches:
        ours.observe(x, y)
    W, b, memory = plain_loop(theirs, batches, ours.network.head.dim, LOSSES[method])
    assert torch.equal(ours.memory.columns["x"], torch.stack([image for image, _ in memory]))
    assert ours.memory.columns["y"].tolist() == [label for _, label in memory]
    for one, other in zip(ours.network.parameters(), [*theirs.parameters(), W, b], strict=True):
        assert torch.equal(one, other) if method == "er" else torch.allclose(one, other, atol=1e-5)
