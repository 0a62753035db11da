"""A memory and a reservoir of plain Python objects."""


class Slots:
    """A dict from slot to sample; slots are taken in order."""

    def __init__(self, size):
        self.size = size
        self.held = {}

    def write(self, slots, samples):
        for slot, sample in zip(slots, samples, strict=True):
            self.held[slot] = sample

    def counts(self):
        found = {}
        for _, label in self.held.values():
            found[label] = found.get(label, 0) + 1
        return found


def reservoir(size, samples, draws):
    """Algorithm R: sample number n, counting from 1, takes a free slot, or slot floor(u n) if there is one."""
    kept = []
    for n, (sample, u) in enumerate(zip(samples, draws, strict=True), start=1):
        if len(kept) < size:
            kept.append(sample)
        elif int(u * n) < size:
            kept[int(u * n)] = sample
    return kept


def shuffled(total, draws):
    """A Fisher-Yates shuffle of range(total), with one draw for each of the first places; those places."""
    order = list(range(total))
    for i, u in enumerate(draws):
        j = i + int(u * (total - i))
        order[i], order[j] = order[j], order[i]
    return order[: len(draws)]
