import io
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from evenhand.datasets import pickles
from evenhand.errors import InputError

PATH = Path("some.pkl")


def read(content):
    return pickles.read_pickle(content, PATH)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2),
        np.array([1, 2, 300], ">i4"),
        np.array([1.5, 2.5], ">f8"),
        np.array([True, False]),
        np.array(["cat", "", "døg"]),
        np.array([b"cat", b"dog"]),
        np.zeros((0, 3), np.float32),
        np.array(7, np.int16),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays_come_back(array, protocol):
    found = read(pickle.dumps(array, protocol))
    assert isinstance(found, np.ndarray)
    assert found.shape == array.shape
    assert found.dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
    assert np.array_equal(found, array)


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_come_back(protocol):
    value = {
        "list": [1, 2.5, -3, 10**30, None, True],
        b"bytes": b"\x00\xff",
        "tuple": (1, ("a", {})),
        3: "drei ß",
        None: np.float32(2.5),
        np.int64(4): np.int64(5),
    }
    found = read(pickle.dumps(value, protocol))
    assert found == value
    assert found[None].dtype == np.float32


def test_texts_of_python_2_come_as_bytes():
    assert read(b"\x80\x02}q\x00U\x04dataq\x01U\x02\xff\x00s.") == {b"data": b"\xff\x00"}
    assert pickles.read_dict(b"\x80\x02}q\x00U\x04dataq\x01K\x07s.", PATH) == {"data": 7}


def test_the_byte_order_of_numpy_stays_as_it_is():
    read(pickle.dumps(np.array([1], ">i4"), 2))
    assert np.dtype("i4").isnative
    assert np.array([1], "i4").tobytes() == (1).to_bytes(4, "little")


class Asks:
    """Pickles to a call of something."""

    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Asks(os.system, ("touch bad",)), "(posix|nt).system"),
        (Asks(eval, ("1",)), "(builtins|__builtin__).eval"),
        (Asks(exec, ("1",)), "(builtins|__builtin__).exec"),
        (Asks(getattr, (1, "real")), "(builtins|__builtin__).getattr"),
        (Asks(np.load, ("x",)), "numpy.load"),
        (Asks(np.frombuffer, (b"x",)), "numpy.*frombuffer"),
        (print, "(builtins|__builtin__).print"),
        (Path("x"), "pathlib.PosixPath"),
        (np.array([print, 1], object), "numpy.dtype O8"),
        (np.array([1, None], object), "numpy.dtype O8"),
        (np.zeros(2, [("a", "i4"), ("b", "f8")]), "numpy.dtype V12"),
        (np.array(["2020-01-01"], "M8[D]"), "numpy.dtype M8"),
        (np.array([1j]), "numpy.dtype c16"),
        (Asks(np.ndarray, ((1 << 50,),)), "an array built in an unusual way"),
        (Asks(np.dtype, ("O",)), "numpy.dtype O"),
    ],
)
def test_nothing_but_arrays_is_made(data, monkeypatch, value, name, protocol):
    monkeypatch.chdir(data)
    sentence = rf"some\.pkl asks for '{name}', but a dataset needs only arrays\. Do not trust it\."
    with pytest.raises(InputError, match=sentence):
        read(pickle.dumps({"data": value}, protocol))
    assert list(data.iterdir()) == []


def test_the_same_code_runs_where_pickles_are_trusted(data, monkeypatch):
    """The pickle of the test above is not refused for being broken."""
    monkeypatch.chdir(data)
    pickle.loads(pickle.dumps(Asks(os.system, ("touch bad",))))
    assert (data / "bad").exists()


@pytest.mark.parametrize("state", [b"}(V__wrapped__\nI1\nVx\nI2\nu", b"N}V__defaults__\n)s\x86"])
def test_a_pickle_cannot_change_what_it_is_given(state):
    assert read(b"\x80\x02cnumpy.core.multiarray\nscalar\n" + state + b"b0N.") is None
    assert pickles._scalar.__defaults__ is None
    assert pickles._scalar.__dict__ == {}
    assert read(pickle.dumps(np.float32(2.5))) == 2.5


def dtype(name, state):
    """A pickle of a dtype with a state of our own, and of an array of that type."""
    file = io.BytesIO()
    file.write(
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntc_codecs\nencode\n(Vb\nVlatin1\ntRtR"
    )
    file.write(b"(I1\n(I2\ntcnumpy\ndtype\n(V" + name + b"\nI0\nI1\ntR" + state + b"bI00\nU\x08abcdefghtb.")
    return file.getvalue()


def test_a_dtype_takes_no_state_of_the_pickles_own():
    assert read(dtype(b"i4", b"(I3\nV<\nNNNI-1\nI-1\nI0\nt")).tobytes() == b"abcdefgh"
    with pytest.raises(InputError, match=r"asks for 'a structured numpy\.dtype'"):
        read(dtype(b"i4", b"(I3\nV<\nN(Va\nt}Va\n(cnumpy\ndtype\n(Vi8\ntRI99\ntsI4\nI4\nI0\nt"))
    for state in (b"(I3\nVx\nNNNI-1\nI-1\nI0\nt", b"I1\n", b"(t"):
        with pytest.raises(InputError, match="is damaged: it is not a complete pickle"):
            read(dtype(b"i4", state))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b".",
        b"hello",
        b"\x80\x02]",
        b"\x80\x02K\x01K\x02",
        b"\x80\x05\x95\xff\xff\xff\xff\xff\xff\xff\x7fN",  # a frame of eight exabytes
        b"\x80\x05\x8e\xff\xff\xff\xff\xff\xff\xff\x7fx.",  # bytes of that size
        b"\x80\x05\x96\x00\x00\x00\x00\x40\x00\x00\x00x.",  # a bytearray of 256 GB
        b"\x80\x02Nr\xff\xff\xff\x7f",  # the memo with a number of two billion
        b"\x80\x02h\x07.",
        b"\x80\x04\x8f(K\x01\x90.",  # a set
        b"]N\x85b.",
    ],
)
def test_damaged_pickles(content):
    with pytest.raises(InputError, match=r"some\.pkl is damaged: it is not a complete pickle"):
        read(content)


def test_large_numbers_in_the_memo_take_no_memory():
    assert read(b"\x80\x02]r\xff\xff\xff\x7f.") == []


def test_tuples_in_tuples_without_an_end():
    nested = b"\x80\x02})" + b"\x85" * 300_000
    with pytest.raises(InputError, match=r"asks for 'a dictionary with keys of type tuple'"):
        read(nested + b"K\x01s.")
    with pytest.raises(InputError, match=r"asks for 'a dictionary with keys of type tuple'"):
        read(b"\x80\x02}()" + b"\x85" * 300_000 + b"K\x01u.")
    with pytest.raises(InputError, match=r"asks for 'a dictionary with keys of type tuple'"):
        read(b"\x80\x02()" + b"\x85" * 300_000 + b"K\x01d.")
    with pytest.raises(InputError, match="not a complete pickle"):
        read(b"\x80\x04()" + b"\x85" * 300_000 + b"\x91.")


def test_a_pickle_that_holds_no_table():
    with pytest.raises(InputError, match=r"some\.pkl is damaged: it does not hold a dictionary"):
        pickles.read_dict(pickle.dumps([1]), PATH)
