"""Trainings: several specs may need a single run, whose tests answer all of them."""

from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from evenhand import errors, files
from evenhand.core import registry
from evenhand.experiment.folder import Folder
from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec


def plan(specs: Iterable[Spec], roots: Sequence[Path]) -> dict[Spec, Spec]:
    """For each spec the run that answers it, so that nothing is trained twice.

    That is a finished run in one of the folders whose tests include it, or else one run for all specs that train alike.
    """
    groups: dict[Hashable, list[Spec]] = {}
    runs: dict[Spec, Spec] = {}
    for spec in dict.fromkeys(specs):
        try:
            result = finished(spec, roots)
        except errors.RunError:  # its own run is damaged, and will say so
            runs[spec] = spec
            continue
        if result:
            runs[spec] = result.spec
        else:
            groups.setdefault(spec.training, []).append(spec)
    for group in groups.values():
        runs |= dict.fromkeys(group, together(group))
    return runs


def together(specs: Sequence[Spec]) -> Spec:
    """One run for specs that train alike, with the tests of all of them."""
    first, *others = specs
    if not others:
        return first
    name = "+".join(registry.spell(term) for term in registry.split(first.method)[0]) or "er"
    base = first.model_copy(update={"method": registry.canonical(name), "tests": ""})
    ways = registry.ways(", ".join(way for spec in specs for way in _ways(spec, base)))
    return base.model_copy(update={"tests": ", ".join(ways)})


def _ways(spec: Spec, base: Spec) -> list[str]:
    """The ways to test `base` that give what a spec asks for."""
    terms = [registry.spell(term) for term in registry.split(spec.method)[1]]
    if registry.tested(base.resolved, "+".join(terms)).test != spec.resolved.test:
        terms.append(spec.resolved.scoring.test)  # one of the two tests by the other logits on its own account
    return ["+".join([*terms, way]) if way else "+".join(terms) for way in ("", *registry.ways(spec.tests))]


def finished(spec: Spec, roots: Sequence[Path]) -> Result | None:
    """The result of a finished run in one of the folders that answers a spec; its own run comes first."""
    for root in roots:
        if (root / spec.key).is_dir() and (result := Folder(root, spec).result()):
            return result
    for root in roots:
        for path in sorted(root.glob(f"*{spec.stream}*/spec.json")):
            with suppress(errors.EvenhandError, TypeError):  # other folders are not asked for, so not complained about
                donor = Spec.read(files.read_json(path))
                if donor.answers(spec) and (result := Folder(root, donor, path.parent.name).result()):
                    return result
    return None
