"""Pickles that may hold numpy arrays and plain values, and nothing else.

A pickle is a program. It is run here by Python's own slow interpreter, which reserves no memory that the pickle merely
claims to need, and with seven names allowed, none of which can do more than build an array.
"""

import io
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from evenhand import errors

KEYS = (str, bytes, int, float, np.generic, type(None))  # of dictionaries; hashing deeply nested tuples would crash
LOADS = pickle._Unpickler.dispatch
SETS = {pickle.EMPTY_SET[0], pickle.ADDITEMS[0], pickle.FROZENSET[0]}


def read_pickle(content: bytes, path: Path) -> Any:
    """Return the value of a pickle; raise if it is damaged or asks for anything except arrays and plain values."""
    try:
        return _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except _Forbidden as request:
        raise errors.InputError(
            f"{path} asks for '{request}', but a dataset needs only arrays. Do not trust it."
        ) from None
    except MemoryError:
        raise errors.InputError(f"{path} is damaged: it asks for more memory than there is.") from None
    except Exception as error:  # a broken pickle can raise nearly anything
        raise errors.InputError(f"{path} is damaged: it is not a complete pickle ({type(error).__name__}).") from None


def read_dict(content: bytes, path: Path) -> dict[str, Any]:
    """Return the dictionary of a pickle, with strings for keys."""
    value = read_pickle(content, path)
    if not isinstance(value, dict):
        raise errors.InputError(f"{path} is damaged: it does not hold a dictionary.")
    return {text(key): item for key, item in value.items()}


def text(value: object) -> str:
    """Return a name as a string; pickles of Python 2 hold names as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class _Forbidden(Exception):  # noqa: N818 - it becomes a sentence
    pass


def _check_keys(code: bytes) -> Callable[[Any], None]:
    """Wrap an instruction that adds items to a dictionary, to check their keys first."""
    load: Callable[[Any], None] = LOADS[code[0]]

    def run(unpickler: Any) -> None:
        keys = unpickler.stack[-2:-1] if code == pickle.SETITEM else unpickler.stack[::2]
        if invalid := [key for key in keys if not isinstance(key, KEYS)]:
            raise _Forbidden(f"a dictionary with keys of type {type(invalid[0]).__name__}")
        load(unpickler)

    return run


class _Unpickler(pickle._Unpickler):
    dispatch: ClassVar[dict[int, Any]] = {
        **{code: load for code, load in LOADS.items() if code not in SETS},
        **{code[0]: _check_keys(code) for code in (pickle.SETITEM, pickle.SETITEMS, pickle.DICT)},
        pickle.BYTEARRAY8[0]: LOADS[pickle.BINBYTES8[0]],  # pickle's own reserves the claimed size
    }

    def find_class(self, module: str, name: str) -> Any:
        function = ALLOWED.get((module.replace("numpy._core", "numpy.core"), name))
        if function is None:
            raise _Forbidden(f"{module}.{name}")
        return lambda *arguments: function(*arguments)  # a new one each time: a pickle may set its attributes


class _DType:
    """The dtype of numbers or strings; numpy's own would accept any state from a pickle."""

    def __init__(self, name: str | bytes, *_: object) -> None:
        self.name, self.order = text(name), "="
        if not re.fullmatch(r"[biuf][1248]|[SU]\d{1,6}", self.name):
            raise _Forbidden(f"numpy.dtype {self.name}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = text(state[1])
        if any(part is not None for part in state[2:5]):
            raise _Forbidden("a structured numpy.dtype")

    @property
    def dtype(self) -> "np.dtype[Any]":
        return np.dtype(self.name).newbyteorder(self.order)  # type: ignore[arg-type]


class _Array(np.ndarray[Any, Any]):
    def __setstate__(self, state: tuple[Any, ...]) -> None:
        version, shape, kind, fortran, content = state
        super().__setstate__((version, shape, kind.dtype, fortran, content))


def _filled(content: bytes, kind: _DType, shape: Any, order: Any, axes: Any = None) -> "np.ndarray[Any, Any]":
    """Return an array as protocol 5 writes it."""
    array = np.frombuffer(content, kind.dtype)
    return array.reshape(shape, order=order) if axes is None else array.reshape(shape).transpose(axes)


def _scalar(kind: _DType, content: bytes) -> Any:
    return np.frombuffer(content, kind.dtype)[0]


def _encoded(text: str, codec: str) -> bytes:
    """Return bytes as older protocols write them."""
    if codec not in ("latin1", b"latin1"):
        raise _Forbidden(f"codec {codec!r}")
    return text.encode("latin1")


def _ndarray(*_: object) -> Any:
    raise _Forbidden("an array built in an unusual way")


ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array((0,), "b"),  # its state then fills it
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy.core.numeric", "_frombuffer"): _filled,
    ("numpy", "ndarray"): _ndarray,  # pickles name it, but never call it
    ("numpy", "dtype"): _DType,
    ("_codecs", "encode"): _encoded,
    ("__builtin__", "bytes"): lambda: b"",  # as older protocols write empty bytes
}
