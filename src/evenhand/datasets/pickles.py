"""Pickles that may hold numpy arrays and plain values, and nothing else.

A pickle is a program. It is run here by Python's own slow interpreter, which reserves no memory that the pickle only
claims to need, with seven names allowed, of which none can do more than build an array.
"""

import io
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from evenhand import errors

KEYS = (
    str,
    bytes,
    int,
    float,
    np.generic,
    type(None),
)  # of tables; the hash of tuples in tuples in tuples would break the stack
LOADS = pickle._Unpickler.dispatch
SETS = {pickle.EMPTY_SET[0], pickle.ADDITEMS[0], pickle.FROZENSET[0]}


def read(content: bytes, path: Path) -> Any:
    """Return the value of a pickle; raise if it is damaged or asks for anything but arrays and plain values."""
    try:
        return _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except _Forbidden as refused:
        raise errors.InputError(
            f"{path} asks for '{refused}', and a dataset needs only arrays. Do not trust it."
        ) from None
    except MemoryError:
        raise errors.InputError(f"{path} is damaged: it asks for more memory than there is.") from None
    except Exception as error:  # a broken pickle can raise nearly anything
        raise errors.InputError(f"{path} is damaged: it is no whole pickle ({type(error).__name__}).") from None


def table(content: bytes, path: Path) -> dict[str, Any]:
    """Return the dictionary of a pickle, with text for its keys where they are bytes."""
    value = read(content, path)
    if not isinstance(value, dict):
        raise errors.InputError(f"{path} is damaged: it holds no table.")
    return {text(key): item for key, item in value.items()}


def text(value: object) -> str:
    """A name as text; pickles of Python 2 hold names as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class _Forbidden(Exception):  # noqa: N818 - it becomes a sentence
    pass


def _keyed(code: bytes) -> Callable[[Any], None]:
    """An instruction that puts items into a table, with a look at their keys first."""
    load: Callable[[Any], None] = LOADS[code[0]]

    def run(unpickler: Any) -> None:
        keys = unpickler.stack[-2:-1] if code == pickle.SETITEM else unpickler.stack[::2]
        if strange := [key for key in keys if not isinstance(key, KEYS)]:
            raise _Forbidden(f"a table with keys of the kind {type(strange[0]).__name__}")
        load(unpickler)

    return run


class _Unpickler(pickle._Unpickler):
    dispatch: ClassVar[dict[int, Any]] = {
        **{code: load for code, load in LOADS.items() if code not in SETS},
        **{code[0]: _keyed(code) for code in (pickle.SETITEM, pickle.SETITEMS, pickle.DICT)},
        pickle.BYTEARRAY8[0]: LOADS[pickle.BINBYTES8[0]],  # its own one reserves what it claims
    }

    def find_class(self, module: str, name: str) -> Any:
        made = ALLOWED.get((module.replace("numpy._core", "numpy.core"), name))
        if made is None:
            raise _Forbidden(f"{module}.{name}")
        return lambda *given: made(*given)  # new each time: a pickle may set the attributes of what it is given


class _Kind:
    """The dtype of numbers or texts: numpy's own would take any state that a pickle gives it."""

    def __init__(self, name: str | bytes, *_: object) -> None:
        self.name, self.order = text(name), "="
        if not re.fullmatch(r"[biuf][1248]|[SU]\d{1,6}", self.name):
            raise _Forbidden(f"numpy.dtype {self.name}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = text(state[1])
        if any(part is not None for part in state[2:5]):
            raise _Forbidden("numpy.dtype with parts")

    @property
    def dtype(self) -> "np.dtype[Any]":
        return np.dtype(self.name).newbyteorder(self.order)  # type: ignore[arg-type]


class _Array(np.ndarray[Any, Any]):
    def __setstate__(self, state: tuple[Any, ...]) -> None:
        version, shape, kind, fortran, content = state
        super().__setstate__((version, shape, kind.dtype, fortran, content))


def _empty(*_: object) -> _Array:
    """An empty array, that its state then fills; pickles ask for it in just this form."""
    return _Array((0,), "b")


def _filled(content: bytes, kind: _Kind, shape: Any, order: Any, axes: Any = None) -> "np.ndarray[Any, Any]":
    """How protocol 5 writes arrays."""
    array = np.frombuffer(content, kind.dtype)
    return array.reshape(shape, order=order) if axes is None else array.reshape(shape).transpose(axes)


def _scalar(kind: _Kind, content: bytes) -> Any:
    return np.frombuffer(content, kind.dtype)[0]


def _encoded(text: str, codec: str) -> bytes:
    """How older protocols write bytes."""
    if codec not in ("latin1", b"latin1"):
        raise _Forbidden(f"codec {codec!r}")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """How they write none."""
    return b""


def _type(*_: object) -> Any:
    raise _Forbidden("an array in another than the usual way")


ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _empty,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy.core.numeric", "_frombuffer"): _filled,
    ("numpy", "ndarray"): _type,  # pickles name it, and never call it
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _encoded,
    ("__builtin__", "bytes"): _no_bytes,
}
