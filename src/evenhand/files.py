"""Files that are either whole or not there: written aside, synced, then renamed into place; states have a checksum."""

import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from evenhand import errors

FACTS, CHECKSUM = "evenhand", "checksum"


def write(path: Path, content: bytes, keep: Path | None = None) -> None:
    """Replace a file at once; a reader, or a crash at any moment, sees the old or the new content.

    Parameters
    ----------
    keep
        Where the old content goes; a crash may then leave it there alone.
    """
    if not path.name:
        raise errors.RunError(f"{path} cannot be written: it is a folder.")
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        try:
            _put(aside, content)
            if keep is not None and path.exists():
                path.replace(keep)
            aside.replace(path)
        except OSError:
            aside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise errors.RunError(f"{path} cannot be written: {error.strerror}.") from None
    with suppress(OSError):  # not every disk can; after a power cut the old content may then be there once more
        _sync(path.parent)


def _put(path: Path, content: bytes) -> None:
    """Write a new file through to the disk."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    finally:
        os.close(file)


def _sync(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def make(folder: Path) -> None:
    """Make a folder where there is none yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.RunError(f"The folder {folder} cannot be made: {error.strerror}.") from None


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON."""
    write(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path, then: str = "Remove its folder to start that run anew.") -> Any:
    """Read a JSON file, or say that it is damaged.

    Parameters
    ----------
    then
        What to do about a damaged one; the default is for the files of a run.
    """
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise errors.RunError(f"{path} is damaged: it holds no JSON.{then and ' ' + then}") from None
    except OSError as error:
        raise errors.RunError(f"{path} cannot be read: {error.strerror}.") from None


def write_state(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any], keep: Path | None = None) -> None:
    """Write tensors, and facts as JSON, into one safetensors file: reading it can run no code."""
    whole = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    text = json.dumps(facts)
    write(path, save(whole, metadata={FACTS: text, CHECKSUM: _checksum(whole, text)}), keep)


def read_state(path: Path) -> tuple[dict[str, Tensor], Any]:
    """Read what `write_state` wrote."""
    try:
        with safe_open(path, framework="pt") as file:
            written = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        facts = json.loads(written[FACTS])
        sound = _checksum(tensors, written[FACTS]) == written[CHECKSUM]
    except (SafetensorError, KeyError, ValueError, RecursionError):
        raise errors.RunError(f"{path} is damaged: it holds no state of evenhand's.") from None
    except OSError as error:
        raise errors.RunError(f"{path} cannot be read: {error.strerror or error}.") from None
    if not sound:
        raise errors.RunError(f"{path} is damaged: its checksum is wrong.")
    return tensors, facts


def _checksum(tensors: Mapping[str, Tensor], text: str) -> str:
    """A digest of all that a state holds: names, types, shapes, values and facts."""
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
