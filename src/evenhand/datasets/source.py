"""Known datasets: what each holds, how it lies on disk, and where it can be fetched."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evenhand import errors
from evenhand.datasets import archives, places
from evenhand.datasets.dataset import Dataset
from evenhand.datasets.encoded import Listen
from evenhand.datasets.prepared import Raw, prepared

Fetcher = Callable[[Path, Listen], None]
"""Puts a dataset into a folder, whole or not at all."""


@dataclass(frozen=True)
class Layout:
    """One way in which a dataset lies on disk: its names below a data folder, and how it is read there."""

    names: tuple[str, ...]
    read: Callable[[Path], Raw]


@dataclass(frozen=True)
class Source:
    """A known dataset.

    Parameters
    ----------
    name
        What it is called on the command line.
    title
        What it is.
    shape
        Of one sample.
    classes
        How many classes it has.
    counts
        How many training and test samples it has.
    layouts
        The ways in which it lies on disk.
    origins
        Where it can be fetched, by the names that `evenhand data fetch --from` takes; the first is tried when the data
        is not found.
    digest
        The hash of its arrays, where there is but one right content.
    """

    name: str
    title: str
    shape: tuple[int, ...]
    classes: int
    counts: tuple[int, int]
    layouts: tuple[Layout, ...]
    origins: Mapping[str, Fetcher] = field(default_factory=dict)
    digest: str = ""

    def find(self) -> tuple[Path, Layout] | None:
        """Where it lies, and how."""
        layouts = {name: layout for layout in self.layouts for name in layout.names}
        found = places.find(layouts)
        return None if found is None else (found[0], layouts[found[1]])

    def load(self, listen: Listen) -> Dataset:
        """Map its arrays, after fetching and reading it where necessary."""
        found = self.find()
        if found is None:
            self.fetch(listen=listen)
            found = self.find()
            assert found is not None
        path, layout = found
        sources = archives.walk(path) if path.is_dir() else [path]
        try:
            return prepared(self.name, path, sources, lambda: layout.read(path), listen, check=self._check)
        except archives.DamagedError as error:
            # What is fetched may lie beside it under another name, where this one would still be found first.
            then = f" Remove {path}, then run evenhand data fetch {self.name}." if self.origins else ""
            raise errors.InputError(f"{error}{then}") from None

    def fetch(self, origin: str | None = None, listen: Listen = lambda *_: None) -> Path:
        """Fetch it into the first data folder; return where it lies."""
        if not self.origins:
            raise errors.InputError(self._missing("it cannot be fetched"))
        if origin is not None and origin not in self.origins:
            raise errors.wrong(f"The origin of {self.name}", f"be one of {', '.join(self.origins)}", origin)
        try:
            self.origins[origin or next(iter(self.origins))](places.home(), listen)
        except errors.FetchError as error:
            if found := self.find():
                raise errors.InputError(f"{self.name} could not be fetched ({error}); {found[0]} stays.") from None
            raise errors.InputError(self._missing(f"it could not be fetched ({error})")) from None
        found = self.find()
        assert found is not None
        return found[0]

    def _missing(self, why: str) -> str:
        names = " or ".join(name for layout in self.layouts for name in layout.names)
        where = ", ".join(map(str, places.folders()))
        others = [f"evenhand data fetch {self.name} --from {origin}" for origin in list(self.origins)[1:]]
        hint = f" Or try: {'; '.join(others)}." if others else ""
        return f"{self.name} is not in {where}, and {why}. Put {names} into {places.home()}.{hint}"

    def _check(self, dataset: Dataset) -> None:
        if dataset.shape != self.shape:
            raise errors.wrong(f"Samples of {self.name}", f"have the shape {self.shape}", dataset.shape)
        if self.digest and dataset.digest != self.digest:
            raise archives.DamagedError(
                f"The files of {self.name} do not hold its known content: their hash begins with "
                f"{dataset.digest[:12]}, not {self.digest[:12]}."
            )
