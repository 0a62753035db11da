"""Prepared data: arrays that are written once, mapped into memory, and written again when their source changes.

They are in a hidden folder `.evenhand` next to the source, or in the cache if that cannot be written. Processes that
load the same data share its pages.
"""

import errno
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evenhand import errors
from evenhand.datasets import data_dirs
from evenhand.datasets.dataset import Dataset
from evenhand.datasets.decoding import Array, EncodedImages, Progress, decode

FORMAT = 2  # increase it when prepared data of an older version must not be read
ARRAYS = ("train_x", "train_y", "test_x", "test_y")
FACTS = "facts.json"
ATTEMPTS = 20  # to move finished arrays into place while other processes do the same
WRITING = threading.Lock()  # threads of one process write one after the other


@dataclass(frozen=True, eq=False)
class RawData:
    """What a reader returns: arrays or encoded images, and their labels."""

    train_x: Array | EncodedImages
    train_y: Array
    test_x: Array | EncodedImages
    test_y: Array
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()


def load_prepared(
    name: str,
    path: Path,
    files: Iterable[Path],
    read: Callable[[], RawData],
    progress: Progress,
    size: int | None = None,
    skip_bad: bool | None = None,
    columns: str = "",
    check: Callable[[Dataset], None] = lambda _: None,
) -> Dataset:
    """Map the prepared arrays of a dataset into memory, and prepare them first if necessary.

    They are written next to `path`, and again when the names, sizes or times of the `files` change: first to a
    temporary folder, which is mapped and then moved into place, where it stays mapped. `size` and `skip_bad` say how
    encoded images are decoded, see `decode`; `columns`, which ones are read. `check` raises if the dataset is not what
    it should be; then no file is left behind.
    """
    state, path = _state(path, files), path.absolute()
    options: dict[str, Any] = {} if skip_bad is None else {"size": size, "skip_bad": skip_bad}
    options |= {"columns": columns} if columns else {}
    origin = json.dumps([name.partition(":")[0], str(path), options], sort_keys=True)
    slug = "".join(c if c.isalnum() else "-" for c in path.name.lower())[:40]
    final = f"{slug}-{hashlib.sha256(origin.encode()).hexdigest()[:8]}-{state}"
    homes = [path.parent / ".evenhand", data_dirs.cache_dir() / "prepared"]
    for home in homes:
        with suppress(Exception):  # whatever is wrong with them, they are prepared again
            return _map(name, home / final)
    raw = read()
    with WRITING:
        aside = _first_made([home / f".{final}.{os.getpid()}" for home in homes])
        if aside is None:
            raise errors.RunError(f"Neither {homes[0]} nor {homes[1]} can be written, so {name} cannot be prepared.")
        home = aside.parent
        try:
            _write(raw, aside, progress, size, skip_bad)
            dataset = _map(name, aside)
            check(dataset)
            _publish(name, aside, home / final)
        except OSError as error:
            reason = error.strerror or error
            raise errors.RunError(f"The arrays of {name} cannot be written to {home}: {reason}.") from None
        finally:
            shutil.rmtree(aside, ignore_errors=True)
            with suppress(OSError):
                home.rmdir()  # only if it is empty
        _remove_leftovers(home / final)
    return dataset


def _first_made(folders: Iterable[Path]) -> Path | None:
    """Create the first of these temporary folders that can be created."""
    for folder in folders:
        with suppress(OSError):
            shutil.rmtree(folder, ignore_errors=True)  # left by a killed process with our id
            folder.mkdir(parents=True)
            return folder
    return None


def _publish(name: str, aside: Path, folder: Path) -> None:
    """Move finished arrays into place all at once, unless another process already did."""
    for attempt in range(ATTEMPTS):
        with suppress(Exception):
            _map(name, folder)
            return
        with suppress(OSError):
            folder.replace(aside / "broken")
        shutil.rmtree(aside / "broken", ignore_errors=True)
        try:
            aside.replace(folder)
            return
        except OSError as error:
            # Another process was faster; a third one may even have removed its arrays again.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or attempt == ATTEMPTS - 1:
                raise


def _state(path: Path, files: Iterable[Path]) -> str:
    """Hash the files' names relative to the path, their sizes and times to twelve digits."""
    hashed = hashlib.sha256(f"{FORMAT}\n".encode())
    for file in files:
        facts, name = os.stat(file), str(file).removeprefix(str(path))  # noqa: PTH116 - faster than Path
        hashed.update(f"{name}\0{facts.st_size}\0{facts.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return hashed.hexdigest()[:12]


def _write(raw: RawData, folder: Path, progress: Progress, size: int | None, skip_bad: bool | None) -> None:
    notes = list(raw.notes)
    for split, x, y in (("train", raw.train_x, raw.train_y), ("test", raw.test_x, raw.test_y)):
        if isinstance(x, np.ndarray):
            np.save(folder / f"{split}_x.npy", np.ascontiguousarray(x) if x.flags.fnc else x)
        else:
            kept, skipped = decode(x, folder / f"{split}_x.npy", progress, size, skip_bad)
            y, notes = y[kept], notes + skipped
        np.save(folder / f"{split}_y.npy", y.astype(np.int64))
    facts = {"classes": raw.classes, "notes": notes, "digest": _digest(folder)}
    (folder / FACTS).write_text(json.dumps(facts))


def _digest(folder: Path) -> str:
    """Hash all samples and labels."""
    hashed = hashlib.sha256()
    for name in ARRAYS:
        array = np.load(folder / f"{name}.npy", mmap_mode="r")
        hashed.update(f"{array.dtype.str} {array.shape}".encode())
        hashed.update(array.data)
    return hashed.hexdigest()


def _map(name: str, folder: Path) -> Dataset:
    facts = json.loads((folder / FACTS).read_text())
    # Copy on write: the file cannot change, and torch does not warn about read-only memory.
    arrays = {array: torch.from_numpy(np.load(folder / f"{array}.npy", mmap_mode="c")) for array in ARRAYS}
    return Dataset(name, **arrays, classes=tuple(facts["classes"]), digest=facts["digest"], notes=tuple(facts["notes"]))


def _remove_leftovers(folder: Path) -> None:
    """Remove arrays of older versions of the source, and what killed processes did not finish."""
    same, _, state = folder.name.rpartition("-")
    any_state = f"{same}-{'?' * len(state)}"
    for old in [*folder.parent.glob(any_state), *folder.parent.glob(f".{any_state}.*")]:
        owner = old.suffix[1:]
        alive = owner.isdigit() and Path(f"/proc/{owner}").exists()
        if old.name != folder.name and not alive:
            shutil.rmtree(old, ignore_errors=True)
