"""Files that are either whole or not there: written aside, synced, then renamed into place."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from evenhand import errors

FACTS = "evenhand"


def write(path: Path, content: bytes) -> None:
    """Replace a file at once; a reader, or a crash at any moment, sees the old or the new content."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise errors.RunError(f"{path} cannot be written: {error.strerror}.") from None


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON."""
    write(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read a JSON file, or say that it is damaged."""
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise errors.RunError(
            f"{path} is damaged: it holds no JSON. Remove its folder to start that run anew."
        ) from None
    except OSError as error:
        raise errors.RunError(f"{path} cannot be read: {error.strerror}.") from None


def write_state(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors, and facts as JSON, into one safetensors file: reading it can run no code."""
    whole = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    write(path, save(whole, metadata={FACTS: json.dumps(facts)}))


def read_state(path: Path) -> tuple[dict[str, Tensor], Any]:
    """Read what `write_state` wrote."""
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {})[FACTS])
            return {name: file.get_tensor(name) for name in file.keys()}, facts  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError, RecursionError):
        raise errors.RunError(f"{path} is damaged: it holds no state of evenhand's. Remove it to start anew.") from None
    except OSError as error:
        raise errors.RunError(f"{path} cannot be read: {error.strerror or error}.") from None
