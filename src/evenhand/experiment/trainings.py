"""Trainings: several specs may need a single run, whose tests answer all of them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from evenhand import errors, files
from evenhand.core import registry
from evenhand.experiment.folder import Folder
from evenhand.experiment.result import Result, grouped
from evenhand.experiment.spec import Spec


class Archive:
    """The finished runs in some folders, looked up by what they can answer.

    A damaged run answers nothing; `damaged` tells what is wrong with those for which no other run answered.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = roots
        self.damaged: dict[Spec, str] = {}
        self._specs: dict[Path, Spec | None] = {}

    @cached_property
    def _folders(self) -> list[Path]:
        return [path for root in self.roots if root.is_dir() for path in sorted(root.iterdir())]

    def find(self, spec: Spec) -> Result | None:
        """The result of a finished run whose tests include those of a spec; its own run comes first."""
        damaged: dict[Spec, str] = {}
        for folder in self._answering(spec):
            try:
                if result := folder.result():
                    return result
            except errors.RunError as error:
                damaged[folder.spec] = str(error)
        self.damaged |= damaged
        return None

    def begun(self, spec: Spec) -> Spec | None:
        """The spec of an interrupted or running run whose tests include those of a spec; its own run comes first."""
        for folder in self._answering(spec):
            with suppress(errors.RunError):
                if folder.status().get("state") in ("running", "failed"):
                    return folder.spec
        return None

    def _answering(self, spec: Spec) -> Iterator[Folder]:
        """The folders of runs whose tests include those of a spec, its own first, even if it is damaged."""
        key, stream = spec.key, spec.stream
        yield from (Folder(root, spec) for root in self.roots if (root / key).is_dir())
        for path in self._folders:
            if stream in path.name and (donor := self._spec(path)) and donor.answers(spec):
                yield Folder(path.parent, donor)

    def _spec(self, path: Path) -> Spec | None:
        """The spec of the run in a folder; None if there is none, or if its key is another."""
        if path not in self._specs:
            self._specs[path] = None
            with suppress(errors.EvenhandError, TypeError, AttributeError):
                spec = Spec.read(files.read_json(path / "spec.json"))
                self._specs[path] = spec if spec.key == path.name else None
        return self._specs[path]


def plan(specs: Iterable[Spec], roots: Sequence[Path]) -> dict[Spec, Spec]:
    """For each spec the run that answers it, so that nothing is trained twice.

    That is a finished run in one of the folders whose tests include it, or else one run for all specs that train alike,
    which may have begun with further tests.
    """
    archive, runs, missing = Archive(roots), {}, []
    for spec in dict.fromkeys(specs):
        if is_done(spec, roots):
            runs[spec] = spec
        elif result := archive.find(spec):
            runs[spec] = result.spec
        else:
            missing.append(spec)
    for group in alike(missing):
        run = together(group)
        runs |= dict.fromkeys(group, archive.begun(run) or run)
    return runs


def is_done(spec: Spec, roots: Sequence[Path]) -> bool:
    """Whether the own run of a spec is finished or damaged, by its status alone; who reads it checks its records."""
    try:
        return any(Folder(root, spec).status().get("state") == "done" for root in roots)
    except errors.RunError:
        return True


def alike(specs: Iterable[Spec]) -> list[list[Spec]]:
    """Group specs that train alike."""
    return list(grouped(dict.fromkeys(specs), lambda spec: spec.training).values())


def together(specs: Sequence[Spec]) -> Spec:
    """One run for specs that train alike, with the tests of all of them."""
    if len(specs) == 1:
        return specs[0]
    base = min(map(_trained, specs), key=lambda base: ("weights" in base.resolved.to_json(), len(base.method)))
    ways = registry.ways(", ".join(way for spec in specs for way in _ways(spec, base)))
    return base.model_copy(update={"tests": ", ".join(ways)})


def _trained(spec: Spec) -> Spec:
    """A spec without the ways to test it."""
    trained = [registry.spell(term) for term in registry.split(spec.method)[0]]
    return spec.model_copy(update={"method": registry.canonical("+".join(trained) or "er"), "tests": ""})


def _ways(spec: Spec, base: Spec) -> list[str]:
    """The ways to test `base` that give what a spec asks for."""
    own, wanted = [registry.spell(term) for term in registry.split(spec.method)[1]], spec.resolved
    given = registry.tested(base.resolved, "+".join(own))
    if given.weights != wanted.weights:  # the methods themselves ask different weights
        weights: Any = wanted.weights
        own.append(weights.way)
    if given.scoring.test != wanted.scoring.test:  # or test by different logits
        own.append(wanted.scoring.test)
    ways = [[registry.spell(term) for term in registry.terms(way)] for way in registry.ways(spec.tests)]
    forms = {"dot", "cos"}
    further = [[*(term for term in own if not (term in forms and forms & {*way})), *way] for way in ways]
    return ["+".join(way) for way in [own, *further]]
