"""Loading a dataset by its name."""

from evenhand import errors
from evenhand.datasets import arrays, folder, places, tables
from evenhand.datasets.cifar import CIFAR10, CIFAR100
from evenhand.datasets.dataset import Dataset
from evenhand.datasets.encoded import Listen
from evenhand.datasets.fashion_cut import fashion_cut
from evenhand.datasets.idx import FASHION, MNIST
from evenhand.datasets.mini_imagenet import MINI_IMAGENET
from evenhand.datasets.source import Source
from evenhand.datasets.tiny_imagenet import TINY_IMAGENET

EMBEDDED = "fashion-cut"
SOURCES: dict[str, Source] = {
    source.name: source for source in (CIFAR10, CIFAR100, MINI_IMAGENET, TINY_IMAGENET, FASHION, MNIST)
}
OWN = ("folder", "npz", "hf")


def known(name: str) -> str:
    """Return a name if there is, or may be, a dataset called so."""
    kind, colon, path = name.partition(":")
    if colon and kind in OWN and path:
        return name
    if name != EMBEDDED and name not in SOURCES:
        raise errors.unknown("dataset", name, [EMBEDDED, *SOURCES, *(f"{kind}:PATH" for kind in OWN)])
    return name


def load(name: str, *, size: int | None = None, skip_bad: bool = False, listen: Listen = lambda *_: None) -> Dataset:
    """Load a dataset.

    Parameters
    ----------
    name
        A known dataset, or `folder:PATH`, `npz:PATH`, `hf:PATH`.
    size
        The side to which images of your own are brought.
    skip_bad
        Leave out images of your own that cannot be read; the dataset's notes name them.
    listen
        Told of downloads and decoding: what, how much is done, how much there is.
    """
    try:
        return _load(name, size, skip_bad, listen)
    except OSError as error:
        raise errors.InputError(f"{error.filename or name} cannot be read: {error.strerror or error}.") from None


def _load(name: str, size: int | None, skip_bad: bool, listen: Listen) -> Dataset:
    kind, colon, path = known(name).partition(":")
    if kind in ("folder", "hf"):
        if size is not None:
            errors.whole("The 'size' of images", size, 1, 4096)
        return {"folder": folder.load, "hf": tables.load}[kind](places.expanded(path), listen, size, skip_bad)
    if size is not None or skip_bad:
        raise errors.InputError(
            f"--size and --skip-bad are for images of your own, in folder: and hf:, not for {name}."
        )
    if colon:
        return arrays.load(places.expanded(path), listen)
    return fashion_cut() if name == EMBEDDED else SOURCES[name].load(listen)
