"""Runs on a Ray cluster. Each run is a task; Ray copies the data to each node once; runs of a lost node move elsewhere.

If all nodes see the root, runs write there and resume from their last checkpoint on any node. Otherwise a run works in
a temporary folder of its node, starts from the state that the caller sends, and returns its files when it is finished.
"""

import logging
import os
import socket
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from evenhand import __version__, errors, files
from evenhand.datasets import Dataset, load
from evenhand.datasets.prepared import ARRAYS
from evenhand.experiment.engine.queue import Failure, Outcome, RunOptions, RunQueue, attempt
from evenhand.experiment.environment import stop_requests
from evenhand.experiment.folder import Folder
from evenhand.experiment.run import Note, Progress
from evenhand.experiment.spec import Spec

REPORT_SECONDS = 1.0  # between two reports of one run
Contents = dict[str, bytes]


def run_on_cluster(queue: RunQueue, workers: int | None, threads: int) -> None:
    """Run the queue, at most `workers` specs at a time, each with `threads` CPUs."""
    if queue.options.track and not queue.options.shared:
        raise errors.InputError("Tracking on a cluster needs a root that all nodes see. If yours is one, use --shared.")
    ray = _connect(queue.options)
    mailbox = _mailbox(ray)
    remote = ray.remote(num_cpus=threads, num_gpus=queue.options.gpus, max_retries=0)(run_on_node)
    data: dict[tuple[Any, ...], Any] = {}
    pending: dict[Any, Spec] = {}
    cancelled: set[Any] = set()
    _warn(ray, queue, threads)

    def start(spec: Spec) -> None:
        if spec.source not in data:
            data[spec.source] = ray.put(_as_arrays(load(*spec.source)))
        root = queue.root.absolute() if queue.options.shared else None
        contents = {} if queue.options.shared else read_files(Folder(queue.root, spec))
        cpus = queue.threads.get(spec.key, threads)
        task = remote.options(num_cpus=cpus).remote(
            __version__, spec, root, contents, cpus, queue.options, data[spec.source], mailbox
        )
        pending[task] = spec

    with stop_requests() as stopping:
        while queue or pending:
            if stopping.is_set():  # in every turn: runs lost meanwhile are in the queue again
                queue.stop()
                for task in pending.keys() - cancelled:
                    ray.cancel(task)
                    cancelled.add(task)
            while (workers is None or len(pending) < workers) and (spec := queue.take()):
                start(spec)
            if not pending:
                time.sleep(0.1)
                continue
            ready, _ = ray.wait(list(pending), timeout=0.5)
            for event in _events(ray, mailbox):
                queue.listen(event)
            for task in ready:
                queue.record(_outcome(ray, task, pending.pop(task), queue))


def run_on_node(
    version: str,
    spec: Spec,
    root: Path | None,
    contents: Contents,
    threads: int,
    options: RunOptions,
    data: dict[str, Any],
    mailbox: Any,
) -> tuple[Outcome, Contents]:
    """Run one spec on a node; return the outcome and, if the root is not shared, the files of the run."""
    if version != __version__:
        message = f"A node has evenhand {__version__}, the caller {version}. Install the same version everywhere."
        return Failure(spec, "mistake", message), {}
    torch.set_num_threads(threads)
    report, dataset = _reporter(mailbox), _from_arrays(data)
    if root is not None:
        return attempt(spec, root, options, report, dataset=dataset), {}
    with tempfile.TemporaryDirectory(prefix="evenhand-") as temporary:
        folder = Folder(Path(temporary), spec)
        write_files(folder, contents)
        return attempt(spec, Path(temporary), options, report, dataset=dataset), read_files(folder)


def read_files(folder: Folder) -> Contents:
    """Contents of the files of a run, by name."""
    paths = [path for path in folder.path.glob("*") if path.is_file() and not path.name.startswith(".")]
    return {path.name: path.read_bytes() for path in paths}


def write_files(folder: Folder, contents: Contents) -> None:
    """Write the files of a run, with status.json last, since it says whether they are complete."""
    if contents:
        folder.path.mkdir(parents=True, exist_ok=True)
    for name in sorted(contents, key=lambda name: name == "status.json"):
        files.write(folder.path / Path(name).name, contents[name])


class Mailbox:
    """Holds the events of runs until the caller fetches them."""

    def __init__(self) -> None:
        self.events: list[Progress | Note] = []

    def put(self, event: Progress | Note) -> None:
        """Add an event."""
        self.events.append(event)

    def take(self) -> list[Progress | Note]:
        """Remove and return all events."""
        events, self.events = self.events, []
        return events


def _connect(options: RunOptions) -> Any:
    try:
        import ray
    except ImportError:
        raise errors.missing("The engine ray needs", "Ray", "cluster") from None
    if not ray.is_initialized():
        _check_address(options.address)
        settings = {"env_vars": {"OMP_WAIT_POLICY": "passive"}}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray.init(options.address, runtime_env=settings, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            where = options.address or "this machine"
            raise errors.InputError(f"No Ray cluster answers at {where}: {str(error).splitlines()[0]}") from None
    return ray


def _check_address(address: str | None) -> None:
    """Raise if nothing answers at the address; Ray itself would keep trying for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise errors.InputError(f"No Ray cluster answers at {address}: {error}.") from None


def _mailbox(ray: Any) -> Any:
    """A mailbox on the node of the caller; if that node is lost, it restarts on another."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    return ray.remote(num_cpus=0, max_restarts=-1)(Mailbox).options(scheduling_strategy=here).remote()


def _events(ray: Any, mailbox: Any) -> list[Progress | Note]:
    """New events of runs; none while the mailbox moves to another node."""
    try:
        return ray.get(mailbox.take.remote(), timeout=5)
    except ray.exceptions.RayError:
        return []


def _warn(ray: Any, queue: RunQueue, threads: int) -> None:
    """Warn if no node is large enough for a run yet; one may still join."""
    needed = {"CPU": threads, "GPU": queue.options.gpus}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(all(node.get(kind, 0) >= amount for kind, amount in needed.items()) for node in nodes):
        size = f"{threads} CPUs" + (f" and {queue.options.gpus:g} GPUs" if queue.options.gpus else "")
        queue.listen(Note("", f"No node of the cluster has {size} yet. Waiting for one."))


def _outcome(ray: Any, task: Any, spec: Spec, queue: RunQueue) -> Outcome:
    """The outcome of a task; files that it returns are written to the root."""
    try:
        outcome, contents = ray.get(task)
    except ray.exceptions.TaskCancelledError:
        return Failure(spec, "stopped", "Stopped on the cluster." + (" The state is saved." * queue.options.shared))
    except ray.exceptions.RayTaskError as error:
        return Failure(spec, "fault", str(error.cause), str(error))
    except ray.exceptions.RayError as error:
        return Failure(spec, "lost", f"The worker was lost ({type(error).__name__}).")
    if contents:
        folder = Folder(queue.root, spec)
        try:
            with folder.locked():
                write_files(folder, {} if folder.result() else contents)
        except errors.RunError as error:
            return Failure(spec, "mistake", str(error))
    return outcome


def _reporter(mailbox: Any) -> Callable[[Progress | Note], None]:
    last = 0.0

    def report(event: Progress | Note) -> None:
        nonlocal last
        if isinstance(event, Note) or time.monotonic() - last > REPORT_SECONDS:
            last = time.monotonic()
            mailbox.put.remote(event)

    return report


def _as_arrays(dataset: Dataset) -> dict[str, Any]:
    """A dataset as arrays, which the processes of a node share without copying."""
    texts = {"name": dataset.name, "classes": dataset.classes, "digest": dataset.digest}
    return {**texts, **{name: getattr(dataset, name).numpy() for name in ARRAYS}}


def _from_arrays(data: dict[str, Any]) -> Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing writes to these arrays, though torch cannot forbid it
        return Dataset(**{**data, **{name: torch.from_numpy(data[name]) for name in ARRAYS}})
