"""Atomic files: written under a temporary name, synced, then renamed. State files carry a checksum."""

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
RESTART = "Remove its folder to restart the run."


def write(path: Path, content: bytes, keep: Path | None = None) -> None:
    """Replace a file atomically: a reader, or a crash at any moment, sees either the old or the new content.

    The old content is moved to `keep`, if given; a crash in between leaves only this copy.
    """
    if not path.name:
        raise errors.RunError(f"{path} cannot be written: it is a folder.")
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # such as /dev/null, which root could replace
            raise errors.RunError(f"{path} cannot be written: it is not a regular file.")
        _sync(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, content)
        if keep is not None and path.exists():
            path.replace(keep)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise errors.RunError(f"{path} cannot be written: {error.strerror}.") from None
    with suppress(OSError):  # some disks cannot sync a folder; a power cut may then restore the old content
        _sync(path.parent, os.O_RDONLY)


def _sync(path: Path, flags: int, content: bytes = b"") -> None:
    """Open a file or a folder, write the content to it, and sync it to disk."""
    file = os.open(path, flags, 0o666)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    finally:
        os.close(file)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents unless they exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.RunError(f"The folder {folder} cannot be created: {error.strerror}.") from None


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON."""
    write(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path, then: str = RESTART) -> Any:
    """Read a JSON file; `then` is the advice if it is damaged, by default for a file of a run."""
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise errors.RunError(f"{path} is damaged: it is not valid JSON.{then and ' ' + then}") from None
    except OSError as error:
        raise errors.RunError(f"{path} cannot be read: {error.strerror}.") from None


def write_state(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any], keep: Path | None = None) -> None:
    """Write tensors, with facts as JSON, to one safetensors file. Reading it cannot run code."""
    copies = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    text = json.dumps(facts)
    write(path, save(copies, metadata={FACTS: text, CHECKSUM: _checksum(copies, text)}), keep)


def read_state(path: Path) -> tuple[dict[str, Tensor], Any]:
    """Read a file that `write_state` wrote: its tensors and its facts."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        facts = json.loads(metadata[FACTS])
        intact = _checksum(tensors, metadata[FACTS]) == metadata[CHECKSUM]
    except (SafetensorError, KeyError, ValueError, RecursionError):
        raise errors.RunError(f"{path} is damaged or is not an evenhand state file.") from None
    except OSError as error:
        raise errors.RunError(f"{path} cannot be read: {error.strerror or error}.") from None
    if not intact:
        raise errors.RunError(f"{path} is damaged: its checksum does not match.")
    return tensors, facts


def _checksum(tensors: Mapping[str, Tensor], text: str) -> str:
    """Digest of names, types, shapes, values and facts."""
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
