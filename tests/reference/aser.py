"""KNN-Shapley values by their recursion and by their definition, and what ASER does with them.

A candidate or an evaluation point is a pair (h, y).
"""

import itertools
import math


def distance(u, v):
    total = 0.0
    for a, b in zip(u, v, strict=True):
        total += (a - b) ** 2
    return total


def feature(layer, x):
    """The hidden layer of a perceptron."""
    W, b = layer
    return [max(0.0, sum(w * v for w, v in zip(row, x, strict=True)) + c) for row, c in zip(W, b, strict=True)]


def nearest_first(candidates, point):
    return sorted(range(len(candidates)), key=lambda i: distance(candidates[i][0], point[0]))


def damped(k, m):
    return min(k, m) / m


def shapley(candidates, point, k, damping=damped, last=None):
    """The recursion, from the farthest candidate to the nearest."""
    order, N = nearest_first(candidates, point), len(candidates)
    match = [1.0 if candidates[i][1] == point[1] else 0.0 for i in order]
    s = [0.0] * N
    s[N - 1] = match[N - 1] / (last or N)
    for m in range(N - 1, 0, -1):  # counted from 1
        s[m - 1] = s[m] + (match[m - 1] - match[m]) / k * damping(k, m)
    values = [0.0] * N
    for rank, i in enumerate(order):
        values[i] = s[rank]
    return values


def utility(chosen, candidates, point, k):
    """The share of K votes that the nearest of the chosen candidates give to the point's class."""
    order = [i for i in nearest_first(candidates, point) if i in chosen]
    return sum(1 for i in order[:k] if candidates[i][1] == point[1]) / k


def defined(candidates, point, k):
    """Shapley's definition: the mean gain over all coalitions of the others, equally weighted by size."""
    N = len(candidates)
    values = []
    for i in range(N):
        others, total = [j for j in range(N) if j != i], 0.0
        for size in range(N):
            for coalition in itertools.combinations(others, size):
                gain = utility({*coalition, i}, candidates, point, k) - utility(set(coalition), candidates, point, k)
                total += gain / (N * math.comb(N - 1, size))
        values.append(total)
    return values


def summed(candidates, points, k, shapley=shapley):
    """The value of each candidate, summed over evaluation points."""
    total = [0.0] * len(candidates)
    for point in points:
        for i, value in enumerate(shapley(candidates, point, k)):
            total[i] += value
    return total


def retrieval(candidates, friends, batch, k, shapley=shapley):
    """The mean value for other memories less that for the batch of the stream."""
    cooperative = [v / len(friends) for v in summed(candidates, friends, k, shapley)]
    adversarial = [v / len(batch) for v in summed(candidates, batch, k, shapley)]
    return [a - b for a, b in zip(cooperative, adversarial, strict=True)]
