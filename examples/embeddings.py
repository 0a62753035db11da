# Embeddings of a frozen network, and a linear head that learns them as they come.
#
#     python examples/embeddings.py
#
# If you have a good pretrained network, freeze it: embed each sample once, and let the learner work on vectors. No step
# goes through the network then, and the memory holds a few hundred numbers per sample instead of an image.

import torch
import torch.nn.functional as F
from torch import nn

from evenhand import Learner, Stream
from evenhand.backbones import MLP, SmallCNN
from evenhand.datasets import dataset, load

torch.manual_seed(0)
clothes = load("fashion-cut")

# Stands for your pretrained network: a small CNN that has seen five of the ten classes, in the ordinary way. With
# torchvision it would be resnet18(weights="DEFAULT") with fc = nn.Identity(), and 512 numbers per image.
trunk = SmallCNN((1, 28, 28))
network = nn.Sequential(trunk, nn.Linear(trunk.dim, 5))
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
known = (clothes.train_y < 5).nonzero().flatten()
for _ in range(3):
    for rows in known[torch.randperm(len(known))].split(50):
        loss = F.cross_entropy(network(clothes.train_x[rows] / 255), clothes.train_y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def embed(images):
    return torch.cat([trunk(part / 255) for part in images.split(500)])


# In evaluation mode, so that batch normalisation neither learns nor depends on the other samples of a batch.
trunk.eval()
train, test = embed(clothes.train_x), embed(clothes.test_x)

# Plain SGD wants numbers of about 1. Whatever scales them must be fixed before the stream begins, so it is taken from
# the samples that the network was trained with.
mean, spread = train[known].mean(0), train[known].std(0) + 1e-3
train, test = (train - mean) / spread, (test - mean) / spread
vectors = dataset((train, clothes.train_y), (test, clothes.test_y), classes=clothes.classes)
stream = Stream.split(vectors, stages=5, seed=0)

# hidden=0 is no layer at all: the features are the embeddings, and what learns is the head.
for method in ("er", "uer"):
    learner = Learner(MLP((trunk.dim,), hidden=0), method, memory=200, lr=0.01)
    for step in stream.steps():
        learner.observe(step.x, step.y)
    correct = torch.tensor(learner.predict(vectors.test_x)) == vectors.test_y
    print(
        f"{method:4}{100 * correct.float().mean():.1f} % of all ten classes, after one pass over {len(stream)} batches"
    )
