"""Known datasets: what each contains, its layouts on disk, and where it can be fetched."""

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
class DiskLayout:
    """One form of a dataset on disk: its possible names in a data directory, and its reader."""

    names: tuple[str, ...]
    read: Callable[[Path], RawData]


@dataclass(frozen=True)
class Source:
    """A known dataset.

    Parameters
    ----------
    name
        Its name on the command line.
    title
        A short description.
    shape
        Shape of one sample.
    classes
        Number of classes.
    counts
        Numbers of training and test samples.
    layouts
        The forms in which it is read from disk.
    origins
        Where it can be fetched, by the values of `evenhand data fetch --from`; the first is tried when the data is
        missing.
    digest
        Hash of its arrays, if only one content is right.
    """

    name: str
    title: str
    shape: tuple[int, ...]
    classes: int
    counts: tuple[int, int]
    layouts: tuple[DiskLayout, ...]
    origins: Mapping[str, Fetcher] = field(default_factory=dict)
    digest: str = ""

    def find(self) -> tuple[Path, DiskLayout] | None:
        """Return its path and layout, or None if it is missing."""
        layouts = [(name, layout) for layout in self.layouts for name in layout.names]
        paths = ((folder / name, layout) for folder in data_dirs.search_path() for name, layout in layouts)
        return next((pair for pair in paths if os.path.exists(pair[0])), None)  # noqa: PTH110 - Path raises for some

    def load(self, progress: Progress) -> Dataset:
        """Load it, after fetching and preparing it if necessary."""
        if self.find() is None:
            self.fetch(progress=progress)
        path, layout = self._found()
        files = archives.walk(path) if path.is_dir() else [path]
        try:
            return load_prepared(self.name, path, files, lambda: layout.read(path), progress, check=self._check)
        except archives.DamagedError as error:
            # Fetching may put it next to this path under another name, and this path would still be found first.
            then = f" Remove {path}, then run evenhand data fetch {self.name}." if self.origins else ""
            raise errors.InputError(f"{error}{then}") from None

    def fetch(self, origin: str | None = None, progress: Progress = lambda *_: None) -> Path:
        """Fetch it into the first data directory and return its path."""
        if not self.origins:
            raise errors.InputError(self._missing("cannot be fetched"))
        if origin is not None and origin not in self.origins:
            raise errors.wrong(f"The origin of {self.name}", f"be one of {', '.join(self.origins)}", origin)
        try:
            self.origins[origin or next(iter(self.origins))](data_dirs.download_dir(), progress)
        except errors.FetchError as error:
            if found := self.find():
                raise errors.InputError(f"{self.name} could not be fetched ({error}). {found[0]} is kept.") from None
            raise errors.InputError(self._missing(f"could not be fetched ({error})")) from None
        return self._found()[0]

    def _found(self) -> tuple[Path, DiskLayout]:
        found = self.find()
        assert found is not None
        return found

    def _missing(self, why: str) -> str:
        names = " or ".join(name for layout in self.layouts for name in layout.names)
        where = ", ".join(map(str, data_dirs.search_path()))
        others = [f"evenhand data fetch {self.name} --from {origin}" for origin in list(self.origins)[1:]]
        hint = f" Or try: {'; '.join(others)}." if others else ""
        return f"{self.name} is not in {where}, and {why}. Put {names} into {data_dirs.download_dir()}.{hint}"

    def _check(self, dataset: Dataset) -> None:
        if dataset.shape != self.shape:
            raise errors.wrong(f"Samples of {self.name}", f"have the shape {self.shape}", dataset.shape)
        if self.digest and dataset.digest != self.digest:
            raise archives.DamagedError(
                f"The files of {self.name} differ from the published data: their hash begins with "
                f"{dataset.digest[:12]}, not {self.digest[:12]}."
            )
