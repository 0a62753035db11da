"""Runs in this process, or in worker processes. Each worker runs many specs; one that dies is replaced."""

import multiprocessing
import signal
import time
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from evenhand import errors
from evenhand.experiment.engine.queue import Failure, Outcome, RunQueue, attempt
from evenhand.experiment.environment import stop_requests
from evenhand.experiment.run import Note, Progress
from evenhand.experiment.spec import Spec

CONTEXT = multiprocessing.get_context("spawn")


def run_inline(queue: RunQueue, threads: int) -> None:
    """Run the queue in this process, one run after the other; `threads` is the number of threads of a new run."""
    with stop_requests() as stopping:  # a run hears of them only while it learns
        while queue:
            if (spec := queue.take()) is None:
                time.sleep(0.1)
            else:
                torch.set_num_threads(queue.threads.get(spec.key, threads))
                outcome = attempt(spec, queue.root, queue.options, queue.listen, stopping.is_set)
                queue.record(outcome)
                if isinstance(outcome, Failure) and outcome.cause == "stopped":
                    stopping.set()
            if stopping.is_set():
                queue.stop()


class Worker:
    """A worker process, and the spec that it is running."""

    def __init__(self, threads: int, closing: Any) -> None:
        self.connection, other_end = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=serve, args=(other_end, closing), daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # until the worker ignores Ctrl-C itself
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        other_end.close()
        self.threads = threads
        self.spec: Spec | None = None
        self.ready = False

    def start(self, spec: Spec, queue: RunQueue) -> None:
        """Send the worker a spec."""
        self.spec = spec
        with suppress(OSError):  # it has just died, which `receive` will tell
            self.connection.send((spec, queue.root, queue.options, queue.threads.get(spec.key, self.threads)))

    def receive(self) -> Progress | Note | Outcome | None:
        """The next message of the worker: None when it is ready, a `Failure` if it died."""
        try:
            message = self.connection.recv()
            self.ready = True
            return message
        except (EOFError, OSError):
            self.process.join()
        code = self.process.exitcode
        death = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        if not self.ready:
            raise errors.RunError(
                f"Worker processes die as they start ({death}). Put the code of your script below "
                "if __name__ == '__main__', or use the engine inline."
            )
        assert self.spec is not None
        return Failure(self.spec, "lost", f"The worker process died ({death}).")

    def end(self) -> None:
        """Let the worker finish."""
        self.connection.close()
        self.process.join()


def run_in_processes(queue: RunQueue, count: int, threads: int) -> None:
    """Run the queue in `count` processes; `threads` is the number of threads of a new run."""
    closing = CONTEXT.RawValue("b", 0)  # an Event has a lock, which a killed worker might never release
    workers: list[Worker] = []
    resource_tracker.ensure_running()  # if the first worker started it, a Ctrl-C could reach that worker
    try:
        with stop_requests() as stopping:
            workers += [Worker(threads, closing) for _ in range(min(count, len(queue)))]
            while queue or any(worker.spec for worker in workers):
                for i, worker in enumerate(workers):
                    if worker.spec is None and (spec := queue.take()):
                        if not worker.process.is_alive():
                            workers[i] = Worker(threads, closing)
                        workers[i].start(spec, queue)
                ready = wait([worker.connection for worker in workers if worker.spec], timeout=0.1)
                for worker in workers:
                    if worker.connection in ready:
                        _handle(worker, queue)
                if stopping.is_set():
                    closing.value = 1
                    queue.stop()
    finally:
        closing.value = 1
        for worker in workers:
            worker.end()


def _handle(worker: Worker, queue: RunQueue) -> None:
    """Handle the next message of a worker."""
    message = worker.receive()
    if isinstance(message, Progress | Note):
        queue.listen(message)
    elif message is not None:
        queue.record(message)
        worker.spec = None


def serve(connection: "Connection[Any, Any]", closing: Any) -> None:
    """Run specs until the parent closes the connection. Ctrl-C is ignored here: the parent passes it on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    connection.send(None)
    orphaned = False

    def report(event: Progress | Note) -> None:
        nonlocal orphaned
        try:
            connection.send(event)
        except OSError:
            orphaned = True  # the parent is gone: save the state and exit

    while not orphaned:
        try:
            spec, root, options, threads = connection.recv()
            torch.set_num_threads(threads)
            outcome = (
                Failure(spec, "stopped", "Not started.")
                if closing.value
                else attempt(spec, root, options, report, lambda: orphaned or bool(closing.value))
            )
            connection.send(outcome)
        except (EOFError, OSError):
            return
