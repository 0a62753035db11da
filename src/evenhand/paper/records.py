"""Where results are found: by their keys, in one folder after the other, so that nothing committed is run again."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from evenhand.experiment.folder import Folder
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec


def done(specs: Iterable[Spec], folders: Sequence[Path]) -> list[Result]:
    """The finished runs of these specs; the first folder that has one counts."""
    found = (next(_results(spec, folders), None) for spec in dict.fromkeys(specs))
    return [result for result in found if result is not None]


def missing(specs: Iterable[Spec], folders: Sequence[Path]) -> list[Spec]:
    """The specs that no folder has a finished run of."""
    return [spec for spec in dict.fromkeys(specs) if next(_results(spec, folders), None) is None]


def _results(spec: Spec, folders: Sequence[Path]) -> Iterator[Result]:
    key = spec.key
    for root in folders:
        if (root / key).is_dir() and (result := Folder(root, spec).result()):
            yield result
