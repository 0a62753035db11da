"""The command about the paper: `evenhand paper`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from evenhand import names
from evenhand.cli_data import prepare, use
from evenhand.cli_options import PLACE, Flag, Place, print_json
from evenhand.errors import EvenhandError, InputError

if TYPE_CHECKING:
    from evenhand.experiment.spec import Spec
    from evenhand.paper import Item

RECORDS = Path("results/paper")


def paper(
    item: str | None = None,
    *,
    seeds: int | None = None,
    datasets: str = "",
    memory: str = "",
    methods: str = "",
    place: Place = PLACE,
    data_dir: Path | None = None,
    root: Path | None = None,
    records: Path | None = None,
    anyway: Flag = False,
    no_run: Flag = False,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    page: Path | None = None,
    json: Flag = False,
) -> int:
    """Reproduce a table or figure of the paper: run what is missing, and show it beside the published numbers.

    Without an item, list them all.

    Parameters
    ----------
    item
        table1, table2, table3, table4, analysis, stages, improvement, scale, balance; or a definition of your own, by
        its path.
    seeds
        Run the seeds 0 to K - 1 instead of the paper's ten.
    datasets
        Only these, with commas between: cifar10,cifar100.
    memory
        Only these sizes, with commas between: 500,1000.
    methods
        Only these, with commas between, as the definition spells them: er,uer,iid++.
    data_dir
        Where datasets lie; EVENHAND_DATA says the same.
    root
        The folder below which every run has its own; as the definition says, or runs/paper.
    records
        A folder with finished runs that are not made again; results/paper by default, where there is one.
    anyway
        Go on with runs that were begun under other versions or threads, though their bits may then differ.
    no_run
        Run nothing: show what is there.
    output
        A folder for ITEM.html, .md, .tex, .csv, .png and .svg.
    page
        Write the page about all items instead, from the records alone, and its pictures beside it.
    json
        Print one JSON document and nothing else.
    """
    from evenhand import files
    from evenhand.paper import definitions, render, shown

    if records is not None and not records.is_dir():
        raise InputError(f"There is no folder {records} for --records.")
    kept = records or (RECORDS if RECORDS.is_dir() else None)
    if page is not None and item is not None:
        raise InputError("The page of --page is about all items. Use -o FOLDER for one of them.")
    if item is None:
        idle = {"seeds": seeds, "datasets": datasets, "memory": memory, "methods": methods, **place.told()}
        idle |= {"data-dir": data_dir, "anyway": anyway, "no-run": no_run, "output": output}
        if page:
            _refuse(idle | {"root": root, "json": json}, "--page, which is about all items")
        else:
            _refuse(idle, "the list of all items: name one for it, e.g. evenhand paper table2")
        return _write_page(page, kept) if page else _list(root, kept, json)
    place.check()
    chosen = definitions.narrow(definitions.find(item), seeds, _words(datasets), _sizes(memory), _words(methods))
    if chosen.source == "bench":
        idle = {name: value for name, value in place.told().items() if name != "threads"}
        _refuse({"seeds": seeds, "anyway": anyway, **idle}, f"{chosen.slug}, whose steps are timed and not run")
    if output is not None:
        files.make(output)  # before anything is run
    root = root or chosen.root
    folders = [*([kept] if kept else []), root]
    use(data_dir)
    problems: list[str] = []
    stopped = False
    if not no_run:
        problems, stopped = _run(chosen, folders, place, anyway)
    rendering = render(chosen, *_found(chosen, folders))
    written = ""
    if output is not None:
        paths, lacking = rendering.write(output)
        written = f"{output}: {', '.join(path.name for path in paths)}"
        problems += [lacking] if lacking else []
    if json:
        print_json({**rendering.document(), "problems": problems})
    else:
        shown.show(rendering)
    if written:
        print(written, file=sys.stderr if json else sys.stdout)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 130 if stopped else 1 if problems else 0


def _refuse(idle: dict[str, Any], where: str) -> None:
    """Name an option that was given where it says nothing."""
    for name, value in idle.items():
        if value is not None and value is not False and value != "":
            raise InputError(f"--{name} says nothing to {where}.")


def _list(root: Path | None, kept: Path | None, json: bool) -> int:
    """Print all items: how many of their runs are done, and how long the others would take."""
    from evenhand.paper import costs, items, records, shown

    rows: list[dict[str, Any]] = []
    for item in items():
        runs, folders = item.runs, [*([kept] if kept else []), root or item.root]
        left = costs.missing(item, folders) if item.source == "bench" else records.missing(item.specs, folders)
        rows.append(
            {
                "item": item.slug,
                "title": item.title,
                "runs": len(runs),
                "done": len(runs) - len(left) if runs else 0,
                "hours_left": item.times.hours(left),
                "hardware": item.times.hardware,
            }
        )
    if json:
        print_json({"schema": 1, "items": rows})
    else:
        shown.listing(rows)
    return 0


def _run(item: "Item", folders: Sequence[Path], place: Place, anyway: bool) -> tuple[list[str], bool]:
    """Run what is missing; what went wrong, and whether it was stopped."""
    from evenhand.experiment.engine import Failure
    from evenhand.paper import costs, records

    if item.source == "bench":
        if untimed := costs.missing(item, folders):
            costs.measure(untimed, folders[-1], place.threads)
        return [], False
    specs, problems = _prepared(records.missing(item.specs, folders, item.kin))
    if not specs:
        return problems, False
    outcomes = place.run(specs, folders[-1], anyway=anyway, patient=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    problems += [f"{failure.spec.key}: {failure.sentence}" for failure in failures if failure.cause != "stopped"]
    return problems, any(failure.cause == "stopped" for failure in failures)


def _prepared(specs: "Sequence[Spec]") -> "tuple[list[Spec], list[str]]":
    """The runs whose data is there, and a sentence about each dataset that is not; the others need not wait for it."""
    problems: dict[tuple[str, int | None, bool], str] = {}
    for kind in dict.fromkeys(spec.source for spec in specs):
        try:
            prepare(*kind)
        except EvenhandError as error:
            problems[kind] = str(error)
    return [spec for spec in specs if spec.source not in problems], list(problems.values())


def _found(item: "Item", folders: Sequence[Path]) -> tuple[list[Any], dict[str, dict[str, float]]]:
    """The finished runs of an item, or what there is of its steps."""
    from evenhand.paper import costs, records

    if item.source == "bench":
        return [], costs.steps(item, folders)
    return records.done(item.specs, folders, item.kin), {}


def _write_page(path: Path, kept: Path | None) -> int:
    """Write the page of the docs."""
    from evenhand.paper import page

    if kept is None:
        raise InputError(f"The page is made from records. Say where they are with --records; {RECORDS} is not here.")
    made = page.write(path, kept)
    done = len({result.key for rendering in made for result in rendering.results})
    print(f"{path}: {done} runs, {sum(len(rendering.flagged) for rendering in made)} rows that differ")
    return 0


def _words(text: str) -> list[str]:
    return [word for word in names.split(text) if word]


def _sizes(text: str) -> list[int]:
    try:
        return [int(word) for word in _words(text)]
    except ValueError:
        raise InputError(
            f"The sizes of --memory must be whole numbers with commas between. Got '{text}' instead."
        ) from None
