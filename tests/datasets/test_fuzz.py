"""Readers against ten thousand broken inputs each: one of our own errors, or a value, and soon."""

import dataclasses
import gzip
import io
import pickle
import random
import resource
import signal
import struct
import tempfile
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from datasets import makers
from datasets.makers import arrow, encode, hf, idx, left, noise, parquet, quiet, tar, write, zipped
from evenhand import datasets
from evenhand.datasets import arrays, cifar, decoding, hugging_face, mini_imagenet, prepared, tiny_imagenet
from evenhand.datasets import idx as idx_module
from evenhand.errors import EvenhandError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

COUNT = 10_000
WHOLE = 100  # of them are loaded by name, and must leave nothing behind when they fail
SECONDS = 5  # of the processor, so that other work on the machine does not matter
ADDRESSES = 4 << 30  # bytes that a test may take on top of what there is: a bomb ends the test, not the machine
MEMORY = 1200 << 10  # kilobytes that a test may really use: the largest image that we take, a few times over
INTERESTING = (0, 1, 2, 7, 8, 16, 32, 64, 127, 128, 255, 256, 1000, 32767, 65535, 1 << 24, (1 << 31) - 1, 1 << 31)
INTERESTING += ((1 << 32) - 1, 1 << 32, (1 << 63) - 1, (1 << 64) - 1, (1 << 64) - 512)


@pytest.fixture
def data(monkeypatch):
    """A data folder in memory, where there is one: files are written many thousand times."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        monkeypatch.setenv("EVENHAND_DATA", folder)
        yield Path(folder)


def mutate(content, draw, hot=()):
    """Change a few things; half of the places are `hot`, (start, stop) where the headers are."""
    made = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        start, stop = draw.choice(hot) if hot and draw.random() < 0.5 else (0, len(made))
        at = min(draw.randrange(start, max(stop, start + 1)), len(made))
        size = draw.choice((1, 2, 4, 8, 30, 600))
        match draw.randrange(8):
            case 0 | 1 if at < len(made):
                made[at] ^= 1 << draw.randrange(8)
            case 2 if at < len(made):
                made[at] = draw.randrange(256)
            case 3 | 4:
                width = draw.choice((1, 2, 4, 8))
                number = draw.choice(INTERESTING) % (1 << 8 * width)
                made[at : at + width] = number.to_bytes(width, draw.choice(("little", "big")))
            case 5:
                made[at : draw.choice((at, at + size))] = draw.randbytes(size)
            case 6:
                other = draw.randrange(len(made) + 1)
                made[at : draw.choice((at, at + size))] = made[other : other + size]
            case 7:
                del made[at : draw.choice((at + size, len(made)))]
    return bytes(made)


class Late(BaseException):
    """Nobody catches it but us."""


@contextmanager
def limited():
    """Cap the addresses of this process, and let its timer raise."""

    def ring(*_):
        raise Late

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    addresses = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, ring)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ADDRESSES, addresses[1]))
    try:
        yield
    finally:
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, addresses)


def fuzz(name, make, read, count=COUNT):
    """Read what `make` makes of a random generator, `count` times; return how many were refused."""
    refused, memory = 0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with limited():
        for number in range(count):
            made = make(random.Random(f"{name} {number}"))
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                read(made)
            except EvenhandError:
                refused += 1
            except BaseException as error:
                raise AssertionError(f"{name} {number}: {error!r}") from error
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
            assert used < MEMORY, f"{name} {number}: {used} kilobytes"
    return refused


def loads(folder, load):
    """Read by loading: what fails leaves in the folder only what was put there."""

    def read(made):
        put = left(folder)
        try:
            load()
        except EvenhandError:
            assert left(folder) == put
            raise
        makers_own = [path for path in folder.iterdir() if path.name == ".evenhand"]
        for path in makers_own:
            prepared.shutil.rmtree(path)

    return read


def both(refused, count):
    """Some inputs were refused and some were not, so that the changes are neither too small nor too large."""
    return count // 50 < refused < count - count // 50


def checksummed(content):
    """A tar whose headers, where they were, have right checksums."""
    made = bytearray(content)
    for start in range(0, len(made) - 511, 512):
        if made[start + 257 : start + 262] == b"ustar":
            made[start + 148 : start + 156] = b" " * 8
            made[start + 148 : start + 156] = b"%06o\0 " % sum(made[start : start + 512])
    return bytes(made)


def test_tar_archives(data):
    x, y = np.zeros((4, 3, 32, 32), np.uint8), np.arange(4, dtype=np.uint8)
    path = tar(data / "cifar-100-binary.tar.gz", makers.cifar100_binary(x, y, x, y), "w")
    plain = path.read_bytes()
    heads = [(at, at + 512) for at in range(0, len(plain), 512) if plain[at + 257 : at + 262] == b"ustar"]
    source = dataclasses.replace(cifar.CIFAR100, digest="")

    def make(draw):
        match draw.randrange(4):
            case 0:
                made = mutate(plain, draw, heads)
            case 1:
                made = mutate(gzip.compress(plain, 1), draw)
            case 2:
                made = gzip.compress(checksummed(mutate(plain, draw, heads)), 1)
            case 3:
                made = checksummed(mutate(plain, draw, heads))
        path.write_bytes(made)

    assert both(fuzz("tar", make, lambda _: cifar.read_cifar(path)), COUNT)
    assert both(fuzz("tar whole", make, loads(data, lambda: source.load(quiet)), WHOLE), WHOLE)


def test_zip_archives(data):
    path = zipped(data / "tiny-imagenet-200.zip", makers.tiny(train=1, val=1))
    plain = path.read_bytes()
    directory = plain.find(b"PK\x01\x02")

    def make(draw):
        path.write_bytes(mutate(plain, draw, [(directory, len(plain)), (0, 60)]))

    assert both(fuzz("zip", make, lambda _: tiny_imagenet.read_tiny_imagenet(path)), COUNT)
    load = loads(data, lambda: tiny_imagenet.TINY_IMAGENET.load(quiet))
    assert both(fuzz("zip whole", make, load, WHOLE), WHOLE)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_idx_files(data, packed):
    x, y = noise(10, 28, 28), np.arange(10, dtype=np.uint8)
    folder = write(data / "mnist", makers.mnist(x, y, x, y, packed))
    contents = {"train-images-idx3-ubyte": idx(x), "t10k-labels-idx1-ubyte": idx(y)}

    def make(draw):
        for name, content in contents.items():
            made = mutate(content, draw, [(0, 16)]) if draw.random() < 0.6 else content
            if packed:
                made = gzip.compress(made, 1)
                made = mutate(made, draw, [(0, 16), (len(made) - 8, len(made))]) if draw.random() < 0.3 else made
            (folder / f"{name}{'.gz' if packed else ''}").write_bytes(made)

    assert both(fuzz(f"idx {packed}", make, lambda _: idx_module.read_idx(folder, idx_module.DIGITS)), COUNT)
    load = loads(data, lambda: idx_module.MNIST.load(quiet))
    assert both(fuzz(f"idx {packed} whole", make, load, WHOLE), WHOLE)


def test_npz_files(data):
    path = data / "mine.npz"

    def saved(save, **more):
        file = io.BytesIO()
        save(file, x=noise(6, 2, 2), y=np.arange(6) % 2, **more)
        return file.getvalue()

    seeds = [saved(np.savez, classes=["a", "b"]), saved(np.savez_compressed), saved(np.savez, x_train=np.ones((2, 2)))]

    def make(draw):
        seed = draw.choice(seeds)
        directory = seed.find(b"PK\x01\x02")
        made = mutate(seed, draw, [(directory, len(seed)), (40, 160), (0, directory)])
        path.write_bytes(summed(made) if draw.random() < 0.5 else made)

    assert both(fuzz("npz", make, lambda _: arrays.read_npz(path)), COUNT)
    assert both(fuzz("npz whole", make, loads(data, lambda: datasets.load(f"npz:{path}")), WHOLE), WHOLE)


def summed(content):
    """A zip of stored members whose checksums, in the directory, are right where they were."""
    made, at = bytearray(content), content.find(b"PK\x01\x02")
    with suppress(struct.error):
        while at >= 0:
            method, size, length = (
                struct.unpack_from(kind, made, at + k)[0] for kind, k in (("<H", 10), ("<I", 20), ("<H", 28))
            )
            start = struct.unpack_from("<I", made, at + 42)[0]
            start += 30 + sum(struct.unpack_from("<HH", made, start + 26))
            if method == 0 and size < len(made):
                struct.pack_into("<I", made, at + 16, zlib.crc32(made[start : start + size]))
            at = made.find(b"PK\x01\x02", at + 46 + length)
    return bytes(made)


def test_pickles_of_cifar(data):
    x, y = np.zeros((1, 3, 32, 32), np.uint8), np.zeros(1, np.uint8)
    folder = write(data / "cifar-100-python", makers.cifar100_python(x, y, x, y))
    table = {b"data": x.reshape(1, -1), b"fine_labels": [0], b"coarse_labels": [1], b"filenames": [b"a.png"]}
    seeds = [pickle.dumps(table, protocol) for protocol in range(6)]
    source = dataclasses.replace(cifar.CIFAR100, digest="")

    def make(draw):
        seed = draw.choice(seeds)
        pixels = seed.find(bytes(100))  # no need to change one of three thousand zeros
        hot = [(0, pixels), (len(seed) - 120, len(seed))] if pixels >= 0 else [(0, 400)]
        (folder / "train").write_bytes(mutate(seed, draw, hot))

    assert both(fuzz("pickles", make, lambda _: cifar.read_cifar(folder)), COUNT)
    fuzz("pickles whole", make, loads(data, lambda: source.load(quiet)), WHOLE)


def test_pickles_of_mini_imagenet(data, monkeypatch):
    for name, value in {"SIDE": 2, "TRAIN": 1, "TEST": 1}.items():
        monkeypatch.setattr(mini_imagenet, name, value)
    images = noise(4, 2, 2, 3)
    tables = [
        {"image_data": images, "class_dict": {"a": [0, 1], "b": np.array([2, 3])}},
        {b"data": images, b"labels": [0, 1, 0, 1], b"catname2label": {b"a": 0}},
        {"data": images, "labels": np.array([0, 1, 0, 1])},
        {"data": images, "labels": [np.int64(0), np.int64(1), np.int64(0), np.int64(1)]},
    ]
    seeds = [pickle.dumps(table, protocol) for table in tables for protocol in range(6)]
    path = write(data / "mini-imagenet", {"train.pkl": b""}) / "train.pkl"

    def make(draw):
        path.write_bytes(mutate(draw.choice(seeds), draw))

    assert both(fuzz("mini", make, lambda _: mini_imagenet.read_mini_imagenet(path.parent)), COUNT)
    load = loads(data, lambda: dataclasses.replace(mini_imagenet.MINI_IMAGENET, shape=(3, 2, 2)).load(quiet))
    assert both(fuzz("mini whole", make, load, WHOLE), WHOLE)


def test_lists_of_mini_imagenet(data, monkeypatch):
    monkeypatch.setattr(mini_imagenet, "TRAIN", 1)
    names = [f"{name}{number}.png" for name in "ab" for number in range(2)]
    lines = "".join(f"{name},{name[0]}\n" for name in names)
    files = {f"images/{name}": b"" for name in names}
    seed = f"filename,label\n{lines}".encode()
    empty = dict.fromkeys(["val.csv", "test.csv"], b"filename,label\n")
    folder = write(data / "mini-imagenet", {**files, **empty})

    def make(draw):
        (folder / "train.csv").write_bytes(mutate(seed, draw))

    assert 0 < fuzz("csv", make, lambda _: mini_imagenet.read_mini_imagenet(folder)) < COUNT


def chunked(content):
    """A PNG whose checksums are right."""
    made, at = bytearray(content), 8
    while at + 12 <= len(made):
        size = int.from_bytes(made[at : at + 4], "big")
        if at + 12 + size > len(made):
            break
        made[at + 8 + size : at + 12 + size] = zlib.crc32(made[at + 4 : at + 8 + size]).to_bytes(4, "big")
        at += 12 + size
    return bytes(made)


def pictures():
    """Images of all modes, by the kinds of files that can hold them."""
    colour = Image.fromarray(noise(6, 5, 3))
    exif = Image.Exif()
    exif[0x0112] = 6
    modes = {mode: colour.convert(mode) for mode in ("RGB", "L", "1", "P", "RGBA", "LA", "CMYK", "I", "F")}
    modes["I;16"] = Image.fromarray(noise(6, 5).astype(np.uint16) * 257)
    modes["F"] = Image.fromarray(noise(6, 5).astype(np.float32) / 255)
    holds = {
        "PNG": ("RGB", "L", "1", "P", "RGBA", "LA", "I;16"),
        "JPEG": ("RGB", "L", "CMYK"),
        "WEBP": ("RGB", "RGBA"),
        "GIF": ("RGB", "L", "P"),
        "TIFF": ("RGB", "L", "1", "P", "RGBA", "CMYK", "I", "F", "I;16"),
        "BMP": ("RGB", "L", "1", "P", "RGBA"),
    }
    found = {kind: [encode(modes[mode], kind) for mode in names] for kind, names in holds.items()}
    found["PNG"] += [encode(modes["P"], transparency=3), encode(colour, exif=exif), encode(modes["L"], transparency=7)]
    found["JPEG"] += [encode(colour, "JPEG", progressive=True, exif=exif), encode(colour, "JPEG", subsampling=0)]
    found["WEBP"] += [encode(modes["RGBA"], "WEBP", lossless=True), encode(colour, "WEBP", exif=exif)]
    found["GIF"] += [encode(colour, "GIF", save_all=True, append_images=[modes["P"]])]
    packings = ("tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg", "group4")
    found["TIFF"] += [encode(modes["1" if p == "group4" else "RGB"], "TIFF", compression=p) for p in packings]
    return found


PICTURES = pictures()


@pytest.mark.parametrize("kind", PICTURES)
def test_images(data, kind):
    def make(draw):
        seed = draw.choice(PICTURES[kind])
        made = mutate(seed, draw, [(0, 40), (len(seed) - 40, len(seed))])
        return chunked(made) if kind == "PNG" and draw.random() < 0.7 else made

    def read(made):
        pixels = decoding.decode_image(made, 8 if len(made) % 2 else None)
        assert pixels.dtype == np.uint8
        assert pixels.ndim == 3
        assert pixels.size
        assert pixels.shape[2] == 3

    assert both(fuzz(kind, make, read), COUNT)
    good = encode(noise(6, 5, 3))
    folder = write(data / "mine", {"a/0.png": good, "a/1.png": good, "b/0.png": good, "b/1.png": good})

    def place(draw):
        (folder / "b" / "1.png").write_bytes(make(draw))

    fuzz(f"{kind} whole", place, loads(data, lambda: datasets.load(f"folder:{folder}")), WHOLE)
    fuzz(f"{kind} skip", place, loads(data, lambda: datasets.load(f"folder:{folder}", size=4, skip_bad=True)), WHOLE)


@pytest.mark.parametrize("kind", [arrow, parquet])
def test_tables(data, kind):
    rows = [(b"image %d" % number, number % 2) for number in range(4)]
    seeds = [kind(hf(rows)), kind(hf(rows, declared=False)), kind(hf(rows * 10))]
    path = data / f"mine.{kind.__name__}"

    def make(draw):
        seed = draw.choice(seeds)
        path.write_bytes(mutate(seed, draw, [(0, 64), (len(seed) - 200, len(seed))]))

    assert both(fuzz(kind.__name__, make, lambda _: hugging_face.read_hugging_face(path)), COUNT)
    fuzz(f"{kind.__name__} whole", make, loads(data, lambda: datasets.load(f"hf:{path}")), WHOLE)


def test_prepared_arrays(data):
    """What lies prepared may be broken in any way: it is used, or made anew."""
    np.savez(data / "mine.npz", x=noise(4, 2), y=[0, 1, 0, 1])
    datasets.load(f"npz:{data / 'mine.npz'}")
    [folder] = (data / ".evenhand").iterdir()
    seeds = {file.name: file.read_bytes() for file in folder.iterdir()}

    def make(draw):
        name = draw.choice(sorted(seeds))
        write(folder, {**seeds, name: mutate(seeds[name], draw, [(0, 128)])})

    def read(_):
        assert len(datasets.load(f"npz:{data / 'mine.npz'}").classes) >= 2
        assert [path.name for path in (data / ".evenhand").iterdir()] == [folder.name]

    assert fuzz("prepared", make, read, COUNT // 5) == 0
