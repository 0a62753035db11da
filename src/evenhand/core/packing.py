"""Packing: samples of several tensors, such as tokens with their mask, as one row of bytes each."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from evenhand import errors

Columns = list[list[Any]]  # name, type and shape of each tensor, as in JSON; no name if it is passed by position


def pack(tensors: Mapping[str, Tensor] | Sequence[Tensor]) -> tuple[Tensor, Columns]:
    """Lay tensors (n, ...) side by side as bytes, (n, bytes); each is a column."""
    named = tensors.items() if isinstance(tensors, Mapping) else ((None, tensor) for tensor in tensors)
    columns: Columns = []
    rows = []
    for name, tensor in named:
        columns.append([name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape[1:])])
        rows.append(tensor.reshape(len(tensor), -1).clone(memory_format=torch.contiguous_format).view(torch.int8))
    if len({len(row) for row in rows}) != 1:
        raise errors.wrong("The inputs of a model", "all have the same number of samples", [len(row) for row in rows])
    return torch.cat(rows, dim=1), columns


def unpack(rows: Tensor, columns: Columns | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional and named arguments of a model for packed rows; rows that are not packed are the only argument.

    They are copies, which the model may change.
    """
    if columns is None:
        return (rows.clone(),), {}
    positional, named, start = [], {}, 0
    for name, kind, shape in columns:
        dtype = getattr(torch, kind)
        size = torch.Size(shape).numel() * dtype.itemsize
        tensor = rows[:, start : start + size].clone(memory_format=torch.contiguous_format).view(dtype).view(-1, *shape)
        start += size
        if name is None:
            positional.append(tensor)
        else:
            named[name] = tensor
    return tuple(positional), named
