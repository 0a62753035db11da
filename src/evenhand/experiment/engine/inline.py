"""Runs one after the other in this process."""

import time

import torch

from evenhand.experiment.engine.queue import Failure, RunQueue, attempt


def run_inline(queue: RunQueue, threads: int) -> None:
    """Run the queue; `threads` is the number of threads of a new run."""
    while queue:
        if (spec := queue.take()) is None:
            time.sleep(0.1)
            continue
        torch.set_num_threads(queue.threads(spec, threads))
        outcome = attempt(spec, queue.root, queue.options, queue.listen)
        queue.record(spec, outcome)
        if isinstance(outcome, Failure) and outcome.cause == "stopped":
            queue.stop()
