# Tokens through a small transformer: topics of short texts arrive one pair after the other.
#
#     python examples/tokens.py
#
# A text is a row of word numbers with a mask for its length, as a tokenizer returns it. Every topic prefers some words.

import torch
from torch import nn

from evenhand import Learner

WORDS, LENGTH, TOPICS = 300, 16, ["sport", "food", "law", "music", "travel", "health"]
torch.manual_seed(0)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 32)
        self.encode = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.classify = nn.Linear(32, 2)  # the learner replaces this layer, however many rows it has

    def forward(self, input_ids, attention_mask):
        h = self.encode(self.embed(input_ids), src_key_padding_mask=attention_mask == 0)
        mask = attention_mask.unsqueeze(2)
        return {"logits": self.classify((h * mask).sum(1) / mask.sum(1))}  # as Hugging Face's models do


preferences = torch.rand(len(TOPICS), WORDS) ** 8


def texts(topics, count):
    topic = torch.tensor(topics)[torch.randint(len(topics), (count,))]
    words = torch.multinomial(preferences[topic], LENGTH, replacement=True)
    mask = (torch.arange(LENGTH) < torch.randint(6, LENGTH + 1, (count, 1))).long()
    return {"input_ids": words * mask, "attention_mask": mask}, [TOPICS[number] for number in topic.tolist()]


# Adam suits a transformer; the optimizer is named, so that it is saved and resumed with the learner.
learner = Learner(Reader(), "uer", memory=120, optimizer="adamw", lr=0.002, clip=1.0)
for stage in range(3):
    for _ in range(150):
        learner.observe(*texts([2 * stage, 2 * stage + 1], 10), predict=True)  # test, then train
    x, y = texts(list(range(2 * stage + 2)), 500)
    correct = sum(guess == truth for guess, truth in zip(learner.predict(x), y, strict=True))
    print(
        f"{len(learner.labels)} topics: {correct / 5:.1f} % of new texts; {100 * learner.accuracy:.1f} % while learning"
    )

[best] = learner.top({name: column[:1] for name, column in x.items()}, 3)
print(f"a text about {y[0]}:", ", ".join(f"{label} {score:.1f}" for label, score in best))
final = sum(guess == truth for guess, truth in zip(learner.predict(x), y, strict=True)) / 5
print(f"at the end {final:.1f} %")
