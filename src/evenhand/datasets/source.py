"""Known datasets: what each contains, its names on disk, and where it can be fetched."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evenhand import errors
from evenhand.datasets import archives, data_dirs
from evenhand.datasets.dataset import Dataset
from evenhand.datasets.decoding import Progress
from evenhand.datasets.prepared import RawData, load_prepared

Fetcher = Callable[[Path, Progress], None]
"""Puts a dataset into a directory, completely or not at all."""


@dataclass(frozen=True)
class Source:
    """A known dataset."""

    name: str  # on the command line
    title: str  # a short description
    shape: tuple[int, ...]  # of one sample
    classes: int
    counts: tuple[int, int]  # of training and test samples
    paths: tuple[str, ...]  # the folders and archives in a data directory that may hold it
    read: Callable[[Path], RawData]
    origins: Mapping[str, Fetcher] = field(default_factory=dict)  # by the values of --from; the first is the default
    digest: str = ""  # of its arrays, if only one content is right

    def find(self) -> Path | None:
        """Return its path, or None if it is missing."""
        paths = (folder / path for folder in data_dirs.search_path() for path in self.paths)
        return next((path for path in paths if os.path.exists(path)), None)  # noqa: PTH110 - Path raises for some

    def load(self, progress: Progress) -> Dataset:
        """Load it, after fetching and preparing it if necessary."""
        path = self.find() or self.fetch(progress=progress)
        try:
            return load_prepared(
                self.name,
                path,
                archives.walk(path),
                lambda: self.read(path),
                progress,
                self.shape[-1],
                check=self._check,
            )
        except archives.DamagedError as error:
            # Fetching may put it next to this path under another name, and this path would still be found first.
            then = f" Remove {path}, then run evenhand data fetch {self.name}." if self.origins else ""
            raise errors.InputError(f"{error}{then}") from None

    def fetch(self, origin: str | None = None, progress: Progress = lambda *_: None) -> Path:
        """Fetch it into the first data directory and return its path."""
        if not self.origins:
            raise errors.InputError(self._missing("cannot be fetched"))
        if origin is not None:
            errors.choice(f"The origin of {self.name}", origin, self.origins)
        try:
            self.origins[origin or next(iter(self.origins))](data_dirs.search_path()[0], progress)
        except errors.FetchError as error:
            if found := self.find():
                raise errors.InputError(f"{self.name} could not be fetched ({error}). {found} is kept.") from None
            raise errors.InputError(self._missing(f"could not be fetched ({error})")) from None
        found = self.find()
        assert found is not None
        return found

    def _missing(self, why: str) -> str:
        searched = data_dirs.search_path()
        others = [f"evenhand data fetch {self.name} --from {origin}" for origin in list(self.origins)[1:]]
        hint = f" Or try: {'; '.join(others)}." if others else ""
        put = f"Put {'one of ' * (len(self.paths) > 1)}{', '.join(self.paths)} into {searched[0]}."
        return f"{self.name} is not in {', '.join(map(str, searched))}, and {why}. {put}{hint}"

    def _check(self, dataset: Dataset) -> None:
        if dataset.shape != self.shape:
            raise errors.wrong(f"Samples of {self.name}", f"have the shape {self.shape}", dataset.shape)
        if self.digest and dataset.digest != self.digest:
            raise archives.DamagedError(
                f"The files of {self.name} differ from the published data: their hash begins with "
                f"{dataset.digest[:12]}, not {self.digest[:12]}."
            )
