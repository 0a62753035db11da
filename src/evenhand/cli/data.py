"""`evenhand data`, `data fetch` and `data show`: list, download and view datasets."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.table import Table

from evenhand.cli.options import DataDir, Flag, Json, print_json
from evenhand.cli.prepare import load_dataset, load_progress, use_data_dir
from evenhand.cli.tables import fitting, stdout
from evenhand.core.settings import RUN

data = App(name="data", help="List, download and view datasets.")


@data.default
def listing(*, data_dir: DataDir = None, json: Json = False) -> None:
    """List the known datasets with their location and size."""
    from evenhand.datasets import data_dirs

    use_data_dir(data_dir)
    rows, searched = _known(), [str(folder) for folder in data_dirs.search_path()]
    if json:
        print_json({"schema": 1, "searched": searched, "datasets": rows})
        return
    stdout().print(datasets_table(rows))
    print(f"Searched: {', '.join(searched)}.")
    print("Custom data: folder:PATH (one subfolder per class), npz:PATH, hf:PATH (Arrow or Parquet).")


def _known() -> list[dict[str, Any]]:
    from evenhand import datasets

    cut = datasets.load("fashion-cut")
    counts = len(cut.train_y), len(cut.test_y)
    columns = ("name", "title", "classes", "train", "test", "shape", "found", "origins")
    rows: list[tuple[Any, ...]] = [
        ("fashion-cut", "6,500 images of Fashion-MNIST", len(cut.classes), *counts, cut.shape, "embedded", [])
    ]
    for source in datasets.SOURCES.values():
        found = source.find()
        place = None if found is None else str(found)
        facts = source.name, source.title, source.classes, *source.counts, source.shape
        rows.append((*facts, place, list(source.origins)))
    return [dict(zip(columns, row, strict=True)) for row in rows]


def datasets_table(rows: list[dict[str, Any]]) -> Table:
    """The table of `evenhand data`."""

    def location(row: dict[str, Any]) -> str:
        origins = ", ".join(row["origins"])
        return row["found"] or (f"missing; fetch from {origins}" if origins else "missing; no download")

    columns = {
        "name": [row["name"] for row in rows],
        "description": [row["title"] for row in rows],
        **{name: [str(row[name]) for row in rows] for name in ("classes", "train", "test")},
        "shape": ["x".join(map(str, row["shape"])) for row in rows],
        "location": [location(row) for row in rows],
    }
    return fitting(columns, texts=("description", "location"), optional=("shape", "test", "train", "classes"))


@data.command
def fetch(
    name: str, *, origin: Annotated[str | None, Parameter(name="--from")] = None, data_dir: DataDir = None
) -> None:
    """Download a dataset into the first data directory, unless there is a copy, and prepare it.

    Parameters
    ----------
    name
        Name of the dataset.
    origin
        Source to download from, as listed by evenhand data; downloads even if there already is a copy.
    """
    from evenhand import datasets, errors

    use_data_dir(data_dir)
    if name == "fashion-cut":
        raise errors.InputError(f"{name} comes with evenhand, so there is nothing to fetch.")
    if name not in datasets.SOURCES:
        raise errors.unknown("dataset to fetch", name, datasets.SOURCES)
    source = datasets.SOURCES[name]
    with load_progress(name) as progress:
        found = source.find()
        location = found if found and origin is None else source.fetch(origin, progress)
        dataset = source.load(progress)
    print(f"{dataset!r}\n{location}")


@data.command(name="show")
def contact_sheet(
    name: str,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    images: int = 10,
    data_dir: DataDir = None,
    size: Annotated[int | None, Parameter(help=RUN["size"].help)] = None,
    skip_bad: Annotated[Flag, Parameter(help=RUN["skip_bad"].help)] = False,
    columns: Annotated[str, Parameter(help=RUN["columns"].help, show_default=False)] = "",
) -> None:
    """Draw a contact sheet of a dataset: one row per class, with its name and first images.

    Parameters
    ----------
    name
        Name of the dataset, or custom data as folder:PATH, npz:PATH or hf:PATH.
    output
        PNG file to write. The default is NAME.png; for custom data, NAME is the last part of the path.
    images
        Training images per class.
    """
    from evenhand.datasets.contact_sheet import write_contact_sheet

    use_data_dir(data_dir)
    dataset = load_dataset(name, size, skip_bad, columns)
    path = output or Path(f"{_stem(name)}.png")
    write_contact_sheet(dataset, path, images)
    print(f"{path}: {dataset!r}")


def _stem(name: str) -> str:
    """A dataset's name as a file name; for custom data the last part of the path."""
    from evenhand.datasets import data_dirs

    kind, colon, custom = name.partition(":")
    if not colon:
        return name
    path = data_dirs.expand(custom)
    return (path if path.name not in ("", "..") else path.resolve()).name or kind
