"""Prepared data: arrays that are mapped into memory, made once from a source and again when the source changes.

They lie in a hidden folder `.evenhand` beside the source, or in the cache where that cannot be written. Processes that
load the same data share its pages.
"""

import hashlib
import json
import os
import shutil
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
    path = path.absolute()
    mark = _mark(path, sources, {"format": FORMAT, **(options or {})})
    slug = "".join(c if c.isalnum() else "-" for c in name.rpartition("/")[2].lower()).strip("-")[:40]
    homes = [path.parent / ".evenhand", places.cache() / "prepared"]
    for home in homes:
        with suppress(OSError, ValueError, KeyError, TypeError):
            return _map(name, home / f"{slug}-{mark}")
    raw = read()
    for home in homes:
        try:
            home.mkdir(parents=True, exist_ok=True)
            aside = home / f".{slug}-{mark}.{os.getpid()}"
            aside.mkdir()
        except OSError:
            continue
        try:
            _write(raw, aside, listen)
            check(_map(name, aside))
            shutil.rmtree(home / f"{slug}-{mark}", ignore_errors=True)  # what is there could not be read
            aside.replace(home / f"{slug}-{mark}")
        except OSError as error:
            raise errors.RunError(f"The arrays of {name} cannot be written to {home}: {error.strerror}.") from None
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        _tidy(home, slug, mark)
        return _map(name, home / f"{slug}-{mark}")
    raise errors.RunError(f"Neither {homes[0]} nor {homes[1]} can be written, so {name} cannot be prepared.")


def _mark(path: Path, files: Iterable[Path], options: Mapping[str, Any]) -> str:
    """Twelve digits that change with the files' names, sizes and times, and with the options."""
    hashed = hashlib.sha256(json.dumps([str(path), options], sort_keys=True).encode())
    for file in files:
        facts = os.stat(file)  # noqa: PTH116 - there may be a hundred thousand
        hashed.update(f"{file}\0{facts.st_size}\0{facts.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return hashed.hexdigest()[:12]


def _write(raw: Raw, folder: Path, listen: Listen) -> None:
    notes = list(raw.notes)
    for split, x, y in (("train", raw.train_x, raw.train_y), ("test", raw.test_x, raw.test_y)):
        if isinstance(x, Encoded):
            kept, skipped = x.decode(folder / f"{split}_x.npy", listen)
            y, notes = y[kept], notes + skipped
        else:
            np.save(folder / f"{split}_x.npy", x)
        np.save(folder / f"{split}_y.npy", y.astype(np.int64))
    facts = {"classes": raw.classes, "notes": notes, "digest": _digest(folder)}
    (folder / "facts.json").write_text(json.dumps(facts))


def _digest(folder: Path) -> str:
    """The hash of all samples and labels."""
    hashed = hashlib.sha256()
    for name in ARRAYS:
        array = np.load(folder / f"{name}.npy", mmap_mode="r")
        hashed.update(f"{array.dtype.str} {array.shape}".encode())
        hashed.update(array.data)
    return hashed.hexdigest()


def _map(name: str, folder: Path) -> Dataset:
    facts = json.loads((folder / "facts.json").read_text())
    # Copy on write: nobody can change the file, and torch need not warn of memory that it may not write to.
    arrays = {array: torch.from_numpy(np.load(folder / f"{array}.npy", mmap_mode="c")) for array in ARRAYS}
    return Dataset(name, **arrays, classes=tuple(facts["classes"]), digest=facts["digest"], notes=tuple(facts["notes"]))


def _tidy(home: Path, slug: str, mark: str) -> None:
    """Remove what an older state of the source left, and what a killed process did not finish."""
    for old in [*home.glob(f"{slug}-{'?' * len(mark)}"), *home.glob(f".{slug}-{'?' * len(mark)}.*")]:
        owner = old.suffix[1:]
        alive = old.name.startswith(".") and owner.isdigit() and Path(f"/proc/{owner}").exists()
        if old.name != f"{slug}-{mark}" and not alive:
            shutil.rmtree(old, ignore_errors=True)
