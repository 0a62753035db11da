"""One of the processes that `evenhand bench --parts processes` times side by side."""

import sys
import time

import torch

from evenhand.bench.workloads import full_learner, step_of

SECONDS = 8
WARM_UP = 5


def work(threads: int, compile: bool) -> None:
    """Warm up, wait for a line on stdin, step with the paper's views for some seconds and print the rate."""
    torch.set_num_threads(threads)
    step = step_of(full_learner("er", compile=compile, views="concat"))
    for _ in range(WARM_UP):
        step()
    print("ready", flush=True)
    sys.stdin.readline()
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        step()
        count += 1
    print(count / (time.perf_counter() - began), flush=True)


if __name__ == "__main__":
    work(int(sys.argv[1]), sys.argv[2] == "1")
