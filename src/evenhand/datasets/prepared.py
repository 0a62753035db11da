"""Prepared data: arrays that are mapped into memory, made once from a source and again when the source changes.

They lie in a hidden folder `.evenhand` beside the source, or in the cache where that cannot be written. Processes that
load the same data share its pages.
"""

import errno
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evenhand import errors
from evenhand.datasets import places
from evenhand.datasets.dataset import Dataset
from evenhand.datasets.encoded import Encoded, Listen

FORMAT = 1  # goes up when prepared data of an older kind must not be read
ARRAYS = ("train_x", "train_y", "test_x", "test_y")
FACTS = "facts.json"
ATTEMPTS = 20  # to move finished arrays into place, where others do so too
TURNS = threading.Lock()  # threads of one process write one after the other


@dataclass(frozen=True, eq=False)
class Raw:
    """What a reader found: arrays, or images still encoded."""

    train_x: "np.ndarray[Any, Any] | Encoded"
    train_y: "np.ndarray[Any, Any]"
    test_x: "np.ndarray[Any, Any] | Encoded"
    test_y: "np.ndarray[Any, Any]"
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()


def prepared(
    name: str,
    path: Path,
    sources: Iterable[Path],
    read: Callable[[], Raw],
    listen: Listen,
    options: Mapping[str, Any] | None = None,
    check: Callable[[Dataset], None] = lambda _: None,
) -> Dataset:
    """Map the prepared arrays of a dataset, or make them.

    Parameters
    ----------
    name
        What the dataset is called.
    path
        Where it lies: the arrays are put beside it.
    sources
        The files that belong to it; a change of their size or time makes the arrays anew.
    read
        Reads the sources.
    listen
        Told of the progress.
    options
        What else decides the arrays, e.g. the size of the images.
    check
        Raises if the arrays are not those that they should be; then nothing is left behind.
    """
    state, path = _state(path, sources), path.absolute()
    origin = json.dumps([name.partition(":")[0], str(path), options or {}], sort_keys=True)
    slug = "".join(c if c.isalnum() else "-" for c in path.name.lower())[:40]
    final = f"{slug}-{hashlib.sha256(origin.encode()).hexdigest()[:8]}-{state}"
    homes = [path.parent / ".evenhand", places.cache() / "prepared"]
    for home in homes:
        with suppress(Exception):  # whatever is wrong with it, it is made anew
            return _map(name, home / final)
    raw = read()
    for home in homes:
        with TURNS, suppress(_Closed):
            return _make(name, raw, home / final, listen, check)
    raise errors.RunError(f"Neither {homes[0]} nor {homes[1]} can be written, so {name} cannot be prepared.")


class _Closed(Exception):  # noqa: N818 - it is no error: there is another place
    """A folder that cannot be written to."""


def _make(name: str, raw: Raw, folder: Path, listen: Listen, check: Callable[[Dataset], None]) -> Dataset:
    """Write the arrays aside, map them, and move them into place, where they stay mapped."""
    home, aside = folder.parent, folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        shutil.rmtree(aside, ignore_errors=True)  # of a killed process that had our number
        aside.mkdir(parents=True)
    except OSError:
        raise _Closed from None
    try:
        _write(raw, aside, listen)
        dataset = _map(name, aside)
        check(dataset)
        _settle(name, aside, folder)
    except OSError as error:
        raise errors.RunError(f"The arrays of {name} cannot be written to {home}: {error.strerror or error}.") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        with suppress(OSError):
            home.rmdir()  # if it is empty
    _tidy(folder)
    return dataset


def _settle(name: str, aside: Path, folder: Path) -> None:
    """Move finished arrays into place, unless another process was faster; nobody ever sees half of them there."""
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
            # Another was faster by a hair; a third may even have taken that away again.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or attempt == ATTEMPTS - 1:
                raise


def _state(path: Path, files: Iterable[Path]) -> str:
    """Twelve digits that change with the files' names below the path, their sizes and times."""
    hashed = hashlib.sha256(f"{FORMAT}\n".encode())
    for file in files:
        facts, name = os.stat(file), str(file).removeprefix(str(path))  # noqa: PTH116 - there may be a hundred thousand
        hashed.update(f"{name}\0{facts.st_size}\0{facts.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return hashed.hexdigest()[:12]


def _write(raw: Raw, folder: Path, listen: Listen) -> None:
    notes = list(raw.notes)
    for split, x, y in (("train", raw.train_x, raw.train_y), ("test", raw.test_x, raw.test_y)):
        if isinstance(x, Encoded):
            kept, skipped = x.decode(folder / f"{split}_x.npy", listen)
            y, notes = y[kept], notes + skipped
        else:
            np.save(folder / f"{split}_x.npy", np.ascontiguousarray(x) if x.flags.fnc else x)
        np.save(folder / f"{split}_y.npy", y.astype(np.int64))
    facts = {"classes": raw.classes, "notes": notes, "digest": _digest(folder)}
    (folder / FACTS).write_text(json.dumps(facts))


def _digest(folder: Path) -> str:
    """The hash of all samples and labels."""
    hashed = hashlib.sha256()
    for name in ARRAYS:
        array = np.load(folder / f"{name}.npy", mmap_mode="r")
        hashed.update(f"{array.dtype.str} {array.shape}".encode())
        hashed.update(array.data)
    return hashed.hexdigest()


def _map(name: str, folder: Path) -> Dataset:
    facts = json.loads((folder / FACTS).read_text())
    # Copy on write: nobody can change the file, and torch need not warn of memory that it may not write to.
    arrays = {array: torch.from_numpy(np.load(folder / f"{array}.npy", mmap_mode="c")) for array in ARRAYS}
    return Dataset(name, **arrays, classes=tuple(facts["classes"]), digest=facts["digest"], notes=tuple(facts["notes"]))


def _tidy(folder: Path) -> None:
    """Remove what an older state of the source left, and what a killed process did not finish."""
    same, _, state = folder.name.rpartition("-")
    any_state = f"{same}-{'?' * len(state)}"
    for old in [*folder.parent.glob(any_state), *folder.parent.glob(f".{any_state}.*")]:
        owner = old.suffix[1:]
        alive = owner.isdigit() and Path(f"/proc/{owner}").exists()
        if old.name != folder.name and not alive:
            shutil.rmtree(old, ignore_errors=True)
