# A folder of images that grows: photos/CLASS/IMAGE. Each evening the learner takes what is new, and is saved.
#
#     python examples/growing_folder.py
#
# New images may belong to new classes; nobody says how many there will be, and no image is ever read twice. Run the
# loop below from cron with your own folder instead of the simulated days.

import random
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from evenhand import Learner
from evenhand.backbones import SmallCNN
from evenhand.datasets import load

PHOTOS, STATE, TAKEN = Path("photos"), Path("photos.safetensors"), Path("photos.taken")


def pixels(files):
    """Images of one size as (n, 1, 28, 28) bytes; uint8 is the cheapest thing to keep in a memory."""
    pictures = [Image.open(file).convert("L").resize((28, 28)) for file in files]
    return np.stack([np.asarray(picture)[None] for picture in pictures])


def evening():
    """Take all images that came since the last time."""
    # Our own backbones are rebuilt from the file; a model of your own is passed: Learner.load(STATE, network=build()).
    learner = Learner.load(STATE) if STATE.exists() else Learner(SmallCNN((1, 28, 28)), "uer", memory=200)
    taken = set(TAKEN.read_text().splitlines()) if TAKEN.exists() else set()
    new = sorted(str(file) for file in PHOTOS.glob("*/*.png") if str(file) not in taken)

    # In random order: whoever sorts by name would show the learner one class after the other.
    random.Random(learner.steps).shuffle(new)
    for start in range(0, len(new), 10):
        files = new[start : start + 10]
        learner.observe(pixels(files), [Path(file).parent.name for file in files])

    # The state is written whole or not at all. Should the power fail before the list is written, the new images are
    # learned once more; the other way round they would be lost.
    learner.save(STATE)
    TAKEN.write_text("\n".join([*taken, *new]))
    return learner, len(new)


# Five days, simulated with the embedded images: every day two kinds of clothes arrive that were not there before.
torch.manual_seed(0)  # of the first weights, so that every run prints the same
data = load("fashion-cut")
for day in range(5):
    for number in (2 * day, 2 * day + 1):
        folder = PHOTOS / data.classes[number]
        folder.mkdir(parents=True)
        for row in (data.train_y == number).nonzero().flatten().tolist():
            Image.fromarray(data.train_x[row, 0].numpy()).save(folder / f"{row}.png")
    learner, count = evening()

    # How well are all kinds so far told apart, on images that never were in the folder?
    tested = data.test_y < 2 * day + 2
    correct = 100 * np.mean(np.array(learner.predict(data.test_x[tested])) == data.names(data.test_y[tested]))
    print(f"day {day + 1}: {count} new images, {len(learner.labels)} kinds, {correct:.1f} % correct")
