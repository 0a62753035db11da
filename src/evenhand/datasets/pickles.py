"""Pickles that may hold numpy arrays and plain values, and nothing else.

A pickle is a program. This reader looks at all of its instructions first, and then runs it with five names allowed, of
which none can do more than build an array.
"""

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np

from evenhand import errors

MEMO = {"BINPUT", "LONG_BINPUT", "PUT"}


def read(content: bytes, path: Path) -> Any:
    """Return the value of a pickle; raise if it is damaged or asks for anything but arrays and plain values."""
    try:
        _inspect(content)
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


def _inspect(content: bytes) -> None:
    """Refuse what would make the unpickler itself reserve memory: a table of memos longer than the pickle."""
    for instruction, argument, _ in pickletools.genops(content):
        if instruction.name in MEMO and int(argument or 0) > len(content):
            raise _Forbidden(f"memo {argument}")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        where = module.replace("numpy._core", "numpy.core")
        try:
            return ALLOWED[where, name]
        except KeyError:
            raise _Forbidden(f"{module}.{name}") from None


def _array(kind: object, shape: object, letter: object) -> "np.ndarray[Any, Any]":
    """An empty array, that its state then fills; pickles ask for it in just this form."""
    return np.ndarray.__new__(np.ndarray, (0,), "b")


def _scalar(kind: "np.dtype[Any]", content: bytes) -> Any:
    if kind.hasobject or len(content) != kind.itemsize:
        raise _Forbidden("numpy scalar of objects")
    return np.frombuffer(content, kind)[0]


def _dtype(name: Any, *_: object) -> "np.dtype[Any]":
    if not isinstance(name, str | bytes) or len(name) > 8:
        raise _Forbidden("numpy.dtype of something that is no name")
    return np.dtype(name if isinstance(name, str) else name.decode())


def _encoded(text: str, codec: str) -> bytes:
    """How older protocols write bytes."""
    if codec not in ("latin1", b"latin1"):
        raise _Forbidden(f"codec {codec!r}")
    return text.encode("latin1")


ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _array,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): _dtype,
    ("_codecs", "encode"): _encoded,
}
