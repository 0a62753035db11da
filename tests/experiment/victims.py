"""Runs in processes that die: at a moment, or at one of their writes, syncs and renames."""

import errno
import multiprocessing
import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from evenhand import errors, files
from evenhand.experiment import run as runs
from evenhand.experiment.engine import processes
from evenhand.experiment.folder import Folder
from evenhand.experiment.run import run
from evenhand.experiment.spec import Spec

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["evenhand.methods", "evenhand.experiment.run", "torch._dynamo", "PIL.PngImagePlugin"])
CALLS = ("write", "fsync", "replace")
REFUSED = 3  # exit code of a run that ended with a sentence


@dataclass(frozen=True)
class Fault:
    """What happens at the n-th call to the disk: "before", "torn" and "after" it the process dies, or it "refuses"."""

    number: int
    kind: str


def live(fields, root, fault=None, count=None, steps=None, checkpoint_seconds=60):
    """Make the run; `count` is told of its calls to the disk, `steps` of its steps."""
    torch.set_num_threads(1)
    calls = 0

    def tell():
        if steps is not None:
            steps.value += 1
        return False

    def watched(name, real):
        def call(*arguments):
            nonlocal calls
            calls += 1
            if fault is None or calls != fault.number:
                return real(*arguments)
            if fault.kind == "refuses":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if fault.kind == "torn" and name == "write":
                real(arguments[0], arguments[1][: len(arguments[1]) // 2])
            if fault.kind == "after":
                real(*arguments)
            return os.kill(os.getpid(), signal.SIGKILL)

        return call

    for name in CALLS:
        setattr(os, name, watched(name, getattr(os, name)))
    try:
        run(Spec.make(**fields), root, stop=tell, checkpoint_seconds=checkpoint_seconds)
    except errors.RunError as error:
        os._exit(REFUSED if "No space left on device" in str(error) else 1)
    if count is not None:
        count.value = calls


def serve(*arguments):
    """Be a worker that kills itself at the end of a stage, as often as the file DEATHS says in all."""
    deaths, evaluate = Path(os.environ["DEATHS"]), runs.evaluate

    def fatal(*given):
        if left := int(deaths.read_text()):
            deaths.write_text(str(left - 1))
            os.kill(os.getpid(), signal.SIGKILL)
        return evaluate(*given)

    runs.evaluate = fatal
    processes.serve(*arguments)


def start(fields, root, **options):
    process = CONTEXT.Process(target=live, args=(fields, root), kwargs=options)
    process.start()
    return process


def finish(fields, root, **options):
    """Make the run in a process of its own; return its exit code."""
    process = start(fields, root, **options)
    process.join()
    return process.exitcode


def kill_at(step, fields, root, **options):
    """Kill the run shortly after a step; return whether it was still going on."""
    steps = CONTEXT.Value("i", lock=False)
    process = start(fields, root, steps=steps, **options)
    while steps.value < step and process.is_alive():
        time.sleep(0.0005)
    time.sleep(random.uniform(0, 0.01))
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


def end(fields, root):
    """All that must be the same, to the bit, in a run that was killed and one that was not."""
    folder = Folder(Path(root), Spec.make(**fields))
    tensors, facts = files.read_state(folder.state)
    return {
        "metrics": (folder.path / "metrics.jsonl").read_bytes(),
        "facts": facts["learner"],
        "files": sorted(path.name for path in folder.path.iterdir()),
        **{name: (tensor.dtype, tensor.shape, tensor.numpy().tobytes()) for name, tensor in tensors.items()},
    }
