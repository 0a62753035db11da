"""Runs in processes of their own: each is started once and makes many runs; one that dies is replaced."""

import multiprocessing
import signal
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from evenhand import errors
from evenhand.experiment.engine import Failure, Outcome, Roster, attempt
from evenhand.experiment.process import stop_requests
from evenhand.experiment.runs import Note, Progress
from evenhand.experiment.spec import Spec

CONTEXT = multiprocessing.get_context("spawn")


class Worker:
    """A process, and the run that it makes at the moment."""

    def __init__(self, threads: int, closing: Any) -> None:
        self.connection, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=serve, args=(theirs, closing), daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # until it can ignore a Ctrl-C itself
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self.threads = threads
        self.spec: Spec | None = None
        self.ready = False

    def begin(self, spec: Spec, roster: Roster) -> bool:
        """Hand it a run; False if it is no longer there."""
        try:
            self.connection.send((spec, roster.root, roster.how, roster.threads(spec, self.threads)))
        except OSError:
            return False
        self.spec = spec
        return True

    def hear(self) -> Progress | Note | Outcome | None:
        """What it has to say, None that it is ready; its death if it died."""
        try:
            said = self.connection.recv()
            self.ready = True
            return said
        except (EOFError, OSError):
            self.process.join()
        death = _death(self.process.exitcode)
        if not self.ready:
            raise errors.RunError(
                f"The processes for runs die as they start ({death}). A script of your own must guard its work by "
                "if __name__ == '__main__'; or use the engine inline."
            )
        assert self.spec is not None
        return Failure(self.spec, "lost", f"Its process died ({death}).")

    def end(self) -> None:
        """Let it finish."""
        self.connection.close()
        self.process.join()


def work(roster: Roster, count: int, threads: int) -> None:
    """Run what is on the roster in so many processes."""
    closing = CONTEXT.RawValue("b", 0)  # an Event has a lock, which a worker that is killed might take along
    workers: list[Worker] = []
    resource_tracker.ensure_running()  # started by the first worker, it would let a Ctrl-C through to it
    try:
        with stop_requests() as stopping:
            workers += [Worker(threads, closing) for _ in range(min(count, len(roster)))]
            while roster or any(worker.spec for worker in workers):
                for place, worker in enumerate(workers):
                    if worker.spec is None and (spec := roster.take()) and not worker.begin(spec, roster):
                        workers[place] = Worker(threads, closing)  # it died while it had nothing to do
                        workers[place].begin(spec, roster)
                heard = wait([worker.connection for worker in workers if worker.spec], timeout=0.1)
                for place, worker in enumerate(workers):
                    if worker.connection in heard and not _heed(worker, roster):
                        workers[place] = Worker(threads, closing)
                if stopping.is_set():
                    closing.value = 1
                    roster.stop()
    finally:
        closing.value = 1
        for worker in workers:
            worker.end()


def _heed(worker: Worker, roster: Roster) -> bool:
    """Take in what a worker says; False if it is dead."""
    said = worker.hear()
    if said is None:
        return True
    if isinstance(said, Progress | Note):
        roster.listen(said)
        return True
    assert worker.spec is not None
    roster.settle(worker.spec, said)
    worker.spec = None
    return not (isinstance(said, Failure) and said.cause == "lost")


def serve(connection: "Connection[Any, Any]", closing: Any) -> None:
    """Make runs until nobody asks for more. A Ctrl-C comes through the parent, so that it is not heard twice."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    connection.send(None)
    orphaned = False

    def report(said: Progress | Note) -> None:
        nonlocal orphaned
        try:
            connection.send(said)
        except OSError:
            orphaned = True  # the parent is gone: save the state and leave

    while not orphaned:
        try:
            spec, root, how, threads = connection.recv()
            torch.set_num_threads(threads)
            outcome = (
                Failure(spec, "stopped", "Not begun.")
                if closing.value
                else attempt(spec, root, how, report, lambda: orphaned or bool(closing.value))
            )
            connection.send(outcome)
        except (EOFError, OSError):
            return


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"
