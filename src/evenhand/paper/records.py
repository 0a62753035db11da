"""Where results are found: by their keys, in one folder after the other, so that nothing committed is run again."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path

from evenhand.experiment.folder import Folder
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec


def trainings(specs: Iterable[Spec]) -> list[list[Spec]]:
    """Specs that one run answers, together, the plainest name first; all but those of Table 1 stand alone."""
    groups: dict[Hashable, list[Spec]] = {}
    for spec in dict.fromkeys(specs):
        groups.setdefault(spec.training, []).append(spec)
    return [sorted(group, key=lambda spec: len(spec.method)) for group in groups.values()]


def done(specs: Sequence[Spec], folders: Sequence[Path], kin: Sequence[Spec] = ()) -> list[Result]:
    """The finished runs of these specs, or of kin that train alike, in their order; the first folder counts."""
    found = {result.spec: result for group in _wanted(specs, kin) for result in _answers(group, folders)}
    return [found[spec] for spec in dict.fromkeys(specs) if spec in found]


def missing(specs: Sequence[Spec], folders: Sequence[Path], kin: Sequence[Spec] = ()) -> list[Spec]:
    """The runs to be made for these specs, where neither theirs nor those of kin are there."""
    return [group[0] for group in _wanted(specs, kin) if not _answers(group, folders)]


def _wanted(specs: Sequence[Spec], kin: Sequence[Spec]) -> list[list[Spec]]:
    """The trainings of these specs, together with those of kin that train alike."""
    wanted = set(specs)
    return [group for group in trainings([*specs, *kin]) if not wanted.isdisjoint(group)]


def _answers(group: Sequence[Spec], folders: Sequence[Path]) -> list[Result]:
    """The results of specs that train alike: of each its own, or else that of another, tested in the same form."""
    own = {spec: result for spec in group if (result := next(_results(spec, folders), None))}
    made = next(iter(own.values()), None)
    return [own.get(spec) or made.tested(spec) for spec in group] if made else []


def _results(spec: Spec, folders: Sequence[Path]) -> Iterator[Result]:
    key = spec.key
    for root in folders:
        if (root / key).is_dir() and (result := Folder(root, spec).result()):
            yield result
