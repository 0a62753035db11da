import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from datasets.makers import flat, left, noise, quiet, write
from evenhand import datasets
from evenhand.datasets.prepared import ARRAYS, RawData, load_prepared
from evenhand.errors import InputError, RunError


class Reader:
    """Reads a raw dataset, and counts how often."""

    def __init__(self, raw=None):
        self.raw, self.calls = (
            raw or RawData(noise(6, 5), np.array([0, 1] * 3), noise(2, 5, seed=1), np.arange(2), ("a", "b")),
            0,
        )

    def __call__(self):
        self.calls += 1
        if isinstance(self.raw, BaseException):
            raise self.raw
        return self.raw


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "place" / "mine.bin"
    path.parent.mkdir()
    path.write_bytes(b"one")
    return path


def get(source, reader, name="mine", **more):
    return load_prepared(name, source, [source], reader, quiet, **more)


def folders(home):
    return sorted(path for path in home.iterdir()) if home.exists() else []


def test_the_second_time_nothing_is_read(source):
    reader = Reader()
    one, two = get(source, reader), get(source, reader)
    assert reader.calls == 1
    for dataset in (one, two):
        assert np.array_equal(dataset.train_x, reader.raw.train_x)
        assert np.array_equal(dataset.test_x, reader.raw.test_x)
        assert dataset.train_y.tolist() == [0, 1] * 3
        assert dataset.classes == ("a", "b")
    assert one.digest == two.digest
    [made] = folders(source.parent / ".evenhand")
    assert left(made) == ["facts.json", "test_x.npy", "test_y.npy", "train_x.npy", "train_y.npy"]


def test_the_arrays_are_mapped_and_a_change_in_memory_stays_there(source):
    reader = Reader()
    get(source, reader).train_x.zero_()
    assert np.array_equal(get(source, reader).train_x, reader.raw.train_x)


def test_a_digest_changes_with_every_array(source):
    raw = Reader().raw
    parts = [raw.train_x, raw.train_y, raw.test_x, raw.test_y]
    digests = {get(source, Reader(), name="first").digest}
    for number, part in enumerate(parts):
        other = [*parts]
        other[number] = 1 - part if part.ndim == 1 else part + 1
        digests.add(get(source, Reader(RawData(*other, ("a", "b"))), size=number, skip_bad=False).digest)
    assert len(digests) == 5


@pytest.mark.parametrize("change", ["size", "time"])
def test_a_changed_source_makes_them_anew_and_removes_the_old_ones(source, change):
    get(source, Reader())
    [old] = folders(source.parent / ".evenhand")
    before = source.stat().st_mtime_ns
    if change == "size":
        source.write_bytes(b"three")
        os.utime(source, ns=(before, before))
    else:
        os.utime(source, ns=(before, before + 1))
    reader = Reader()
    get(source, reader)
    assert reader.calls == 1
    [new] = folders(source.parent / ".evenhand")
    assert new != old


def test_a_renamed_or_moved_file_makes_them_anew(tmp_path):
    """All images have the same size and time, and one of them changes its class."""
    path = write(tmp_path / "mine", {f"{name}/{number}.png": flat(7) for name in "ab" for number in range(3)})
    for file in path.rglob("*.png"):
        os.utime(file, ns=(1, 1))
    one = datasets.load(f"folder:{path}")
    (path / "a" / "2.png").rename(path / "b" / "3.png")
    assert datasets.load(f"folder:{path}").digest != one.digest


def test_other_options_have_arrays_of_their_own(source):
    small, large = Reader(), Reader()
    for _ in range(2):
        get(source, small, size=8, skip_bad=False)
        get(source, large, size=16, skip_bad=False)
    assert (small.calls, large.calls) == (1, 1)
    assert len(folders(source.parent / ".evenhand")) == 2


def test_sources_of_one_name_in_the_cache_leave_each_other_alone(tmp_path, monkeypatch):
    readers = {}
    for name in "ab":
        path = write(tmp_path / name, {"data.bin": b"x", ".evenhand": b"a file, so that no folder can be there"})
        readers[path / "data.bin"] = Reader()
    for _ in range(2):
        for path, reader in readers.items():
            get(path, reader)
    assert [reader.calls for reader in readers.values()] == [1, 1]
    assert len(folders(tmp_path / "cache" / "evenhand" / "prepared")) == 2


def test_a_folder_that_cannot_be_written_falls_back_to_the_cache(source, tmp_path):
    (source.parent / ".evenhand").write_bytes(b"a file, so that no folder can be there")
    reader = Reader()
    get(source, reader)
    assert np.array_equal(get(source, reader).train_x, reader.raw.train_x)
    assert reader.calls == 1
    assert len(folders(tmp_path / "cache" / "evenhand" / "prepared")) == 1


def test_a_folder_that_is_read_only_falls_back_to_the_cache(source, tmp_path, monkeypatch):
    mkdir = Path.mkdir

    def refuse(self, *args, **options):
        if source.parent in self.parents:
            raise PermissionError(13, "Permission denied")
        mkdir(self, *args, **options)

    monkeypatch.setattr(Path, "mkdir", refuse)
    get(source, Reader())
    assert left(source.parent) == ["mine.bin"]
    assert len(folders(tmp_path / "cache" / "evenhand" / "prepared")) == 1


def test_when_neither_folder_can_be_written(source, tmp_path):
    (source.parent / ".evenhand").write_bytes(b"")
    (tmp_path / "cache").write_bytes(b"")
    with pytest.raises(
        RunError, match=r"Neither .*place/\.evenhand nor .*evenhand/prepared can be written, so mine cannot"
    ):
        get(source, Reader())


@pytest.mark.parametrize("name", ["facts.json", *(f"{name}.npy" for name in ARRAYS)])
@pytest.mark.parametrize("damage", ["empty", "half", "gone", "garbage", "folder"])
def test_damaged_arrays_are_made_anew(source, name, damage):
    reader = Reader()
    get(source, reader)
    [made] = folders(source.parent / ".evenhand")
    content = (made / name).read_bytes()
    (made / name).unlink()
    if damage == "folder":
        (made / name).mkdir()
    elif damage != "gone":
        broken = {"empty": b"", "half": content[: len(content) // 2], "garbage": b"\x93NUMPY garbage {["}[damage]
        (made / name).write_bytes(broken)
    for _ in range(2):
        dataset = get(source, reader)
        assert np.array_equal(dataset.train_x, reader.raw.train_x)
    assert reader.calls == 2
    assert folders(source.parent / ".evenhand") == [made]
    assert (made / name).read_bytes() == content


@pytest.mark.parametrize("facts", ["[]", "{}", "3", '{"classes": 3, "notes": [], "digest": ""}', "[" * 100_000])
def test_facts_of_another_kind_are_made_anew(source, facts):
    reader = Reader()
    get(source, reader)
    [made] = folders(source.parent / ".evenhand")
    (made / "facts.json").write_text(facts)
    assert get(source, reader).classes == ("a", "b")
    assert reader.calls == 2


def test_arrays_of_other_kinds_are_made_anew(source):
    reader = Reader()
    get(source, reader)
    [made] = folders(source.parent / ".evenhand")
    for number, strange in enumerate([np.zeros(6), np.zeros((6, 2), int), np.array(1), np.array(["a"] * 6)]):
        np.save(made / "train_y.npy", strange)
        assert get(source, reader).train_y.dtype == torch.int64
        assert reader.calls == number + 2


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (InputError("the reader refuses"), InputError),
        (KeyError("a bug"), KeyError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (RawData(noise(6, 5), np.array([0, 1] * 2), noise(2, 5), np.arange(2), ("a", "b")), InputError),
        (RawData(noise(6, 5), np.array([0, 7] * 3), noise(2, 5), np.arange(2), ("a", "b")), InputError),
        (RawData(noise(2, 5), np.arange(2), [("x", b"")], np.arange(1), ("a", "b")), InputError),
    ],
)
def test_a_failing_reader_leaves_nothing_behind(source, tmp_path, raw, error):
    with pytest.raises(error):
        get(source, Reader(raw))
    assert left(source.parent) == ["mine.bin"]
    assert not (tmp_path / "cache").exists()


def test_a_failing_check_leaves_nothing_behind(source):
    def check(dataset):
        assert np.array_equal(dataset.train_x, Reader().raw.train_x)
        raise InputError("not this one")

    with pytest.raises(InputError, match="not this one"):
        get(source, Reader(), check=check)
    assert left(source.parent) == ["mine.bin"]
    get(source, Reader())
    source.write_bytes(b"another")
    kept = left(source.parent)
    with pytest.raises(InputError, match="not this one"):
        get(source, Reader(), check=check)
    assert left(source.parent) == kept


@pytest.mark.parametrize("encoded", [False, True])
def test_a_full_disk(source, encoded):
    """Files may not grow beyond a size, which a write notices as it does a disk that is full."""
    x = [("x", flat(1, side=64)), ("y", flat(1, side=64))] if encoded else noise(2, 3, 64, 64)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(
            RunError, match=r"The arrays of mine cannot be written to .*\.evenhand: (File too large|\d+ requested)"
        ):
            get(source, Reader(RawData(x, np.arange(2), noise(2, 3, 64, 64), np.arange(2), ("a", "b"))))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert left(source.parent) == ["mine.bin"]


def test_space_is_reserved_before_pixels_are_written(source, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    x = [("x", flat(1)), ("y", flat(1))]
    with pytest.raises(RunError, match=r"cannot be written to .*\.evenhand: No space left on device\."):
        get(source, Reader(RawData(x, np.arange(2), noise(2, 3, 8, 8), np.arange(2), ("a", "b"))))
    assert left(source.parent) == ["mine.bin"]


def test_what_killed_processes_left_is_removed(source):
    get(source, Reader())
    home = source.parent / ".evenhand"
    [made] = folders(home)
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    rests = [home / f".{made.name}.{owner}" for owner in (dead.stdout.strip(), os.getpid(), os.getppid())]
    for rest in rests:
        write(rest, {"train_x.npy": b"half"})
    source.write_bytes(b"another")
    for rest in rests[:2]:
        rest.rename(rest.with_name(rest.name.replace(made.name, "x")))  # of another dataset: to be left alone
        write(rest, {"train_x.npy": b"half"})
    get(source, Reader())
    [new] = [path for path in folders(home) if not path.name.startswith(".")]
    kept = {path.name for path in folders(home)} - {new.name}
    assert kept == {f".x.{dead.stdout.strip()}", f".x.{os.getpid()}", rests[1].name, rests[2].name}


def test_the_rest_of_a_killed_process_with_our_number_is_in_nobodys_way(source, tmp_path):
    get(source, Reader())
    [made] = folders(source.parent / ".evenhand")
    for name in ("facts.json", "train_x.npy"):
        (made / name).unlink()
    made.rename(made.with_name(f".{made.name}.{os.getpid()}"))
    get(source, Reader())
    assert folders(source.parent / ".evenhand") == [made]
    assert not (tmp_path / "cache").exists()


def test_another_process_that_is_faster(source):
    """The same arrays are made while we read, and again while we move ours into place."""
    inner = Reader()

    def read():
        get(source, inner)
        return Reader().raw

    dataset = load_prepared("mine", source, [source], read, quiet)
    assert np.array_equal(dataset.train_x, inner.raw.train_x)
    assert len(folders(source.parent / ".evenhand")) == 1
    assert get(source, Reader(KeyError("is not read"))).digest == dataset.digest


@pytest.mark.parametrize("broken", [False, True])
def test_another_process_that_is_faster_by_a_hair(source, monkeypatch, broken):
    """When we move ours into place it has just put its own there."""
    get(source, Reader())
    [made] = folders(source.parent / ".evenhand")
    theirs = {path.name: path.read_bytes() for path in made.iterdir()}
    for path in [made / "facts.json"] if broken else [*made.iterdir(), made]:
        path.rmdir() if path == made else path.unlink()
    replace, moves = Path.replace, []

    def late(self, target):
        if target == made:
            moves.append(self)
            write(made, theirs)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", late)
    reader = Reader()
    assert np.array_equal(get(source, reader).train_x, reader.raw.train_x)
    assert reader.calls == len(moves) == 1
    assert folders(source.parent / ".evenhand") == [made]
    assert {path.name: path.read_bytes() for path in made.iterdir()} == theirs


def test_arrays_that_cannot_be_moved_into_place(source, monkeypatch):
    def refuse(self, target):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(RunError, match=r"The arrays of mine cannot be written to .*\.evenhand: Permission denied\."):
        get(source, Reader())
    assert left(source.parent) == ["mine.bin"]


PROCESS = """
import sys, time
from pathlib import Path
from evenhand import datasets
name, place, number = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
(place / f"ready-{number}").touch()
while not (place / "go").exists():
    time.sleep(0.001)
print(datasets.load(name).digest)
"""


def test_several_processes_at_once(tmp_path):
    path = write(tmp_path / "mine", {f"{name}/{number}.png": flat(number) for name in "ab" for number in range(100)})
    place = tmp_path / "place"
    place.mkdir()
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, f"folder:{path}", str(place), str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    while len(list(place.iterdir())) < 3 and all(process.poll() is None for process in started):
        time.sleep(0.01)
    (place / "go").touch()
    ended = [process.communicate() for process in started]
    assert [error for _, error in ended] == [""] * 3
    assert {digest.strip() for digest, _ in ended} == {datasets.load(f"folder:{path}").digest}
    [made] = folders(tmp_path / ".evenhand")
    assert json.loads((made / "facts.json").read_text())["classes"] == ["a", "b"]


CROWD = """
import os, random, sys, time
from pathlib import Path
import numpy as np
from evenhand.datasets.prepared import RawData, load_prepared

def slow(name):
    call = getattr(os, name)
    def late(*args, **options):
        time.sleep(random.choice((0, random.random() * 0.003)))
        return call(*args, **options)
    setattr(os, name, late)

def load(path):
    raw = RawData(np.ones((4, 9)), np.arange(4) % 2, np.ones((2, 9)), np.arange(2), ("a", "b"))
    return load_prepared("mine", path, [path], lambda: raw, lambda *_: None)

def work(path):
    random.seed(os.getpid())
    for name in ("unlink", "rename", "replace", "rmdir", "mkdir", "open", "scandir", "stat"):
        slow(name)
    try:
        assert load(path).train_x.sum() == 36
        os._exit(0)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)

for number in range(80):
    path = Path(sys.argv[1]) / str(number) / "mine.bin"
    path.parent.mkdir()
    path.touch()
    if number % 2:
        load(path)
        next(path.parent.glob(".evenhand/*/train_x.npy")).write_bytes(b"")
    workers = [os.fork() or work(path) for _ in range(6)]
    for worker in workers:
        os.waitpid(worker, 0)
    print([len(list(folder.iterdir())) for folder in path.parent.glob(".evenhand/*")])
"""


@pytest.mark.slow
def test_six_processes_that_are_interrupted_anywhere(tmp_path):
    """Every call of the system may take a while; whoever comes when, all have the arrays and one copy is left."""
    (tmp_path / "place").mkdir()
    command = [sys.executable, "-W", "ignore", "-c", CROWD, str(tmp_path / "place")]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.stderr == ""
    assert ended.stdout.splitlines() == ["[5]"] * 80
    assert not (tmp_path / "cache").exists()
