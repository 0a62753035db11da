# Learning while others predict: one thread learns a stream, four ask all the time, and nobody waits for a whole step.
#
#     python examples/threads.py
#
# In a web service the requests are such threads: call learner.predict in one endpoint, learner.observe in another.

import threading

import torch
from torch import nn

from evenhand import Learner

torch.manual_seed(0)
centres = 2 * torch.randn(8, 32)


def samples(low, high, count, generator):
    which = torch.randint(low, high, (count,), generator=generator)
    return centres[which] + torch.randn(count, 32, generator=generator), which.tolist()


learner = Learner(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 2)), "uer", memory=100)
stream = torch.Generator().manual_seed(1)
learner.observe(*samples(0, 2, 10, stream))  # from now on there is something to predict

learned = threading.Event()
answers = [[], [], [], []]  # for each thread, whether its predictions were right


def ask(number):
    requests = torch.Generator().manual_seed(10 + number)
    while not learned.is_set():
        known = len(learner.labels)
        x, [truth] = samples(0, known, 1, requests)
        answers[number].append(learner.predict(x) == [truth])


askers = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
for asker in askers:
    asker.start()
for stage in range(4):
    for _ in range(100):
        learner.observe(*samples(2 * stage, 2 * stage + 2, 10, stream))
    learner.save("learner.safetensors")  # takes its turn; predictions go on meanwhile
learned.set()
for asker in askers:
    asker.join()

asked = [right for each in answers for right in each]
print(
    f"{learner.steps} steps beside {len(asked)} predictions, of which {100 * sum(asked) / len(asked):.0f} % were right"
)
x, y = samples(0, 8, 1000, stream)
print(f"at the end {sum(a == b for a, b in zip(learner.predict(x), y, strict=True)) / 10:.1f} %")
