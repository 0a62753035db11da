"""`evenhand run`: run methods on one stream."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from evenhand.cli.options import EXECUTION, RUN_SETTINGS, Anyway, Execution, Json, Root, RunSettings, Track
from evenhand.cli.outcomes import conclude
from evenhand.cli.prepare import load_missing, trackers, use_data_dir
from evenhand.core.settings import RUN
from evenhand.errors import InputError


def run(
    *methods: str,
    tested: Annotated[Literal["test", "validation"] | None, Parameter(help=RUN["tested"].help)] = None,
    seeds: int | None = None,
    seed: int | None = None,
    settings: RunSettings = RUN_SETTINGS,
    execution: Execution = EXECUTION,
    track: Track = None,
    root: Root = Path("runs"),
    anyway: Anyway = False,
    json: Json = False,
) -> int:
    """Run methods on a stream and compare them.

    Finished runs are reused, interrupted ones resumed, missing ones started.

    Parameters
    ----------
    methods
        Methods with their parameters, e.g. er "uer(alpha=0.3)".
    seeds
        Run the seeds 0 to SEEDS - 1.
    seed
        Run only this seed.
    """
    from evenhand.experiment.spec import Spec

    if not methods:
        raise InputError("Name at least one method, e.g. evenhand run er uer. List them with evenhand methods.")
    if seeds is not None and seed is not None:
        raise InputError("Use either --seeds K for the seeds 0 to K - 1, or --seed S for a single one.")
    if seeds is not None and seeds < 1:
        raise InputError(f"The number of --seeds must be at least 1. Got {seeds} instead.")
    fields = settings.fields() | ({"tested": tested} if tested else {})
    numbers = [seed] if seed is not None else range(seeds or 1)
    specs = [Spec.make(settings.preset, method=name, seed=number, **fields) for name in methods for number in numbers]
    execution.check()
    use_data_dir(settings.data_dir)
    load_missing(specs, root)
    options = {"anyway": anyway, "track": trackers(track)}
    return conclude(execution.run(list(dict.fromkeys(specs)), root, **options), json)
