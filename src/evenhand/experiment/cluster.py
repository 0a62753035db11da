"""Runs on a Ray cluster: each is a task, its data are put once a node, and a lost node's runs go on elsewhere.

Where all nodes see the root, a run writes there, and goes on from its last checkpoint whoever makes it. Elsewhere it is
made in a folder of its node, begins with the state that the caller has, and its files come back when it is done.
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
from evenhand.experiment.engine import Failure, How, Outcome, Roster, attempt
from evenhand.experiment.folder import Folder
from evenhand.experiment.process import stop_requests
from evenhand.experiment.runs import Note, Progress
from evenhand.experiment.spec import Spec

EVERY = 1.0  # seconds between two reports of one run
ARRAYS = ("train_x", "train_y", "test_x", "test_y")
Packed = dict[str, bytes]


def work(roster: Roster, workers: int | None, threads: int) -> None:
    """Run what is on the roster, at most so many at a time, each with so many CPUs."""
    if roster.how.track and not roster.how.shared:
        raise errors.InputError(
            "Tracking on a cluster writes below the root, so it needs one that is shared (--shared)."
        )
    ray = _connected(roster.how)
    post = _post(ray)
    made = ray.remote(num_cpus=threads, num_gpus=roster.how.gpus, max_retries=0)(make)
    data: dict[tuple[Any, ...], Any] = {}
    pending: dict[Any, Spec] = {}
    cancelled: set[Any] = set()
    _warn(ray, roster, threads)

    def begin(spec: Spec) -> None:
        if spec.source not in data:
            data[spec.source] = ray.put(_plain(load(spec.data, size=spec.size, skip_bad=spec.skip_bad)))
        root = roster.root.absolute() if roster.how.shared else None
        packed = {} if roster.how.shared else pack(Folder(roster.root, spec))
        own = roster.threads(spec, threads)
        task = made.options(num_cpus=own).remote(
            __version__, spec, root, packed, own, roster.how, data[spec.source], post
        )
        pending[task] = spec

    with stop_requests() as stopping:
        while roster or pending:
            if stopping.is_set():  # in every turn: what was lost meanwhile is on the roster again
                roster.stop()
                for task in pending.keys() - cancelled:
                    ray.cancel(task)
                    cancelled.add(task)
            while (workers is None or len(pending) < workers) and (spec := roster.take()):
                begin(spec)
            if not pending:
                time.sleep(0.1)
                continue
            ready, _ = ray.wait(list(pending), timeout=0.5)
            for event in _news(ray, post):
                roster.listen(event)
            for task in ready:
                spec = pending.pop(task)
                roster.settle(spec, _outcome(ray, task, spec, roster))


def make(
    version: str,
    spec: Spec,
    root: Path | None,
    packed: Packed,
    threads: int,
    how: How,
    data: dict[str, Any],
    post: Any,
) -> tuple[Outcome, Packed]:
    """Make one run, on a node; return what came of it, and its files where the root is not shared."""
    if version != __version__:
        sentence = f"A node has evenhand {__version__}, the caller {version}. Install the same on all."
        return Failure(spec, "mistake", sentence), {}
    torch.set_num_threads(threads)
    report, dataset = _reporting(post), _dataset(data)
    if root is not None:
        return attempt(spec, root, how, report, dataset=dataset), {}
    with tempfile.TemporaryDirectory(prefix="evenhand-") as place:
        folder = Folder(Path(place), spec)
        unpack(folder, packed)
        return attempt(spec, Path(place), how, report, dataset=dataset), pack(folder)


def pack(folder: Folder) -> Packed:
    """The files of a run as they are."""
    paths = [path for path in folder.path.glob("*") if path.is_file() and not path.name.startswith(".")]
    return {path.name: path.read_bytes() for path in paths}


def unpack(folder: Folder, packed: Packed) -> None:
    """Write the files of a run, the status last: it is what says that they are whole."""
    if packed:
        folder.path.mkdir(parents=True, exist_ok=True)
    for name in sorted(packed, key=lambda name: name == "status.json"):
        files.write(folder.path / Path(name).name, packed[name])


class Post:
    """Where runs leave word of their progress until the caller asks."""

    def __init__(self) -> None:
        self.events: list[Progress | Note] = []

    def put(self, event: Progress | Note) -> None:
        """Leave one event."""
        self.events.append(event)

    def take(self) -> list[Progress | Note]:
        """Take all that are there."""
        taken, self.events = self.events, []
        return taken


def _connected(how: How) -> Any:
    try:
        import ray
    except ImportError:
        raise errors.InputError("The engine ray needs Ray: pip install 'evenhand[cluster]'.") from None
    if not ray.is_initialized():
        _knock(how.address)
        settings = {"env_vars": {"OMP_WAIT_POLICY": "passive"}}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray.init(how.address, runtime_env=settings, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            where = how.address or "this machine"
            raise errors.InputError(f"There is no Ray cluster at {where}: {str(error).splitlines()[0]}") from None
    return ray


def _knock(address: str | None) -> None:
    """Raise if nobody answers; Ray itself would go on trying for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise errors.InputError(f"There is no Ray cluster at {address}: {error}.") from None


def _post(ray: Any) -> Any:
    """A post office on the caller's own node, or, should that be lost, on another."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    return ray.remote(num_cpus=0, max_restarts=-1)(Post).options(scheduling_strategy=here).remote()


def _news(ray: Any, post: Any) -> list[Progress | Note]:
    """What runs have left at the post; nothing while it moves to another node."""
    try:
        return ray.get(post.take.remote(), timeout=5)
    except ray.exceptions.RayError:
        return []


def _warn(ray: Any, roster: Roster, threads: int) -> None:
    """Say so if no node is large enough for a run; one may still join."""
    wanted = {"CPU": threads, "GPU": roster.how.gpus}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(all(node.get(kind, 0) >= amount for kind, amount in wanted.items()) for node in nodes):
        needs = f"{threads} CPUs" + (f" and {roster.how.gpus:g} GPUs" if roster.how.gpus else "")
        roster.listen(Note("", f"No node of the cluster has {needs} yet. Waiting for one."))


def _outcome(ray: Any, task: Any, spec: Spec, roster: Roster) -> Outcome:
    """What came of a task; the files that it brings are put where runs live."""
    try:
        outcome, packed = ray.get(task)
    except ray.exceptions.TaskCancelledError:
        return Failure(spec, "stopped", "Stopped on the cluster." + (" The state is saved." * roster.how.shared))
    except ray.exceptions.RayTaskError as error:
        return Failure(spec, "fault", str(error.cause), str(error))
    except ray.exceptions.RayError as error:
        return Failure(spec, "lost", f"Its worker was lost ({type(error).__name__}).")
    if packed:
        folder = Folder(roster.root, spec)
        try:
            with folder.locked():
                unpack(folder, {} if folder.result() else packed)
        except errors.RunError as error:
            return Failure(spec, "mistake", str(error))
    return outcome


def _reporting(post: Any) -> Callable[[Progress | Note], None]:
    last = 0.0

    def report(event: Progress | Note) -> None:
        nonlocal last
        if isinstance(event, Note) or time.monotonic() - last > EVERY:
            last = time.monotonic()
            post.put.remote(event)

    return report


def _plain(dataset: Dataset) -> dict[str, Any]:
    """A dataset as arrays, which the nodes' processes share without copying."""
    texts = {"name": dataset.name, "classes": dataset.classes, "digest": dataset.digest}
    return {**texts, **{name: getattr(dataset, name).numpy() for name in ARRAYS}}


def _dataset(data: dict[str, Any]) -> Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nobody writes into these arrays, though torch could not forbid it
        return Dataset(**{**data, **{name: torch.from_numpy(data[name]) for name in ARRAYS}})
