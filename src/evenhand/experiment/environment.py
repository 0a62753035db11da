"""The process of a run: versions, threads and hardware, and requests to stop."""

import ctypes
import os
import platform
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from evenhand import __version__

TRIM, MAP = -1, -3  # options of mallopt, in glibc


def environment() -> dict[str, Any]:
    """What can change the bits of a run without being part of the experiment."""
    return {
        "evenhand": __version__,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "capability": torch.backends.cpu.get_cpu_capability(),
    }


def hardware() -> dict[str, Any]:
    """Processor, cores and system, for readers of the numbers."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    processor = names[0] if names else platform.machine()
    return {"processor": processor, "cores": os.cpu_count(), "system": platform.system()}


def keep_freed_memory() -> None:
    """Let malloc keep freed memory for what comes next, where the C library is glibc.

    Otherwise the activations of each batch of a test are given back to the system and mapped again, which takes a
    quarter of the time.
    """
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(MAP, 1 << 25)  # bytes from which on memory is mapped by itself
        libc.mallopt(TRIM, 1 << 30)  # free bytes from which on they are given back


@contextmanager
def stop_requests() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, so that work can stop at a safe moment."""
    stopping = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    before = {number: signal.signal(number, lambda *_: stopping.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
