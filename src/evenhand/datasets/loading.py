"""Load a dataset by name."""

from functools import partial
from typing import Any

from evenhand import errors
from evenhand.datasets import data_dirs, fashion_cut
from evenhand.datasets.arrays import find_npz, read_npz
from evenhand.datasets.cifar import CIFAR10, CIFAR100
from evenhand.datasets.dataset import Dataset
from evenhand.datasets.decoding import Progress
from evenhand.datasets.hugging_face import find_tables, read_hugging_face
from evenhand.datasets.idx import FASHION, MNIST
from evenhand.datasets.image_folder import find_images, read_image_folder
from evenhand.datasets.mini_imagenet import MINI_IMAGENET
from evenhand.datasets.prepared import load_prepared
from evenhand.datasets.source import Source
from evenhand.datasets.tiny_imagenet import TINY_IMAGENET

EMBEDDED = fashion_cut.NAME
SOURCES: dict[str, Source] = {
    source.name: source for source in (CIFAR10, CIFAR100, MINI_IMAGENET, TINY_IMAGENET, FASHION, MNIST)
}
CUSTOM = {  # how to find the files below a path, and how to read them
    "folder": (find_images, read_image_folder),
    "npz": (find_npz, read_npz),
    "hf": (find_tables, read_hugging_face),
}


def check_name(name: str) -> str:
    """Return the name of a dataset, or raise if it is unknown; the path of custom data is not checked."""
    kind, _, path = name.partition(":")
    if not (path and kind in CUSTOM) and name != EMBEDDED and name not in SOURCES:
        raise errors.unknown("dataset", name, [EMBEDDED, *SOURCES, *(f"{kind}:PATH" for kind in CUSTOM)])
    return name


def pinned(name: str) -> bool:
    """Whether a dataset has only one right content, so that no run can have used another."""
    return name == EMBEDDED or bool(name in SOURCES and SOURCES[name].digest)


def load(
    name: str,
    size: int | None = None,
    skip_bad: bool = False,
    columns: str = "",
    *,
    progress: Progress = lambda *_: None,
) -> Dataset:
    """Load a dataset.

    Parameters
    ----------
    name
        A known dataset, or `folder:PATH`, `npz:PATH`, `hf:PATH`.
    size
        Resize custom images to this side length.
    skip_bad
        Skip custom images that cannot be read; the dataset's notes list them.
    columns
        Names of the columns of `hf:` data that hold images and labels, with a comma between them.
    progress
        Called during downloads and decoding with a description, the amount done and the total.
    """
    kind, _, place = check_name(name).partition(":")
    images = kind in ("folder", "hf")
    if not images and (size is not None or skip_bad):
        raise errors.InputError(f"--size and --skip-bad apply only to custom images (folder: and hf:), not to {name}.")
    if columns and kind != "hf":
        raise errors.InputError(f"--columns applies only to Hugging Face data (hf:), not to {name}.")
    if size is not None:
        errors.whole("The 'size' of images", size, 1, 4096)
    try:
        if name == EMBEDDED:
            return fashion_cut.read()
        if name in SOURCES:
            return SOURCES[name].load(progress)
        (find, read), path = CUSTOM[kind], data_dirs.expand(place)
        options: dict[str, Any] = {"size": size, "skip_bad": skip_bad} if images else {}
        if columns:
            options["columns"], read = columns, partial(read_hugging_face, columns=columns)
        return load_prepared(f"{kind}:{path}", path, find(path), lambda: read(path), progress, **options)
    except OSError as error:
        raise errors.InputError(f"{error.filename or name} cannot be read: {error.strerror or error}.") from None
