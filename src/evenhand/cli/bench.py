"""`evenhand bench`: measure speed."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from evenhand import names
from evenhand.cli.options import Json, print_json
from evenhand.cli.tables import fitting, print_line, stdout
from evenhand.errors import InputError, wrong


def bench(
    *,
    parts: str | None = None,
    methods: str | None = None,
    rounds: int = 30,
    threads: int | None = None,
    json: Json = False,
) -> None:
    """Measure speed against plain PyTorch loops and the machine's peak.

    Run nothing else on the machine at the same time.

    Parameters
    ----------
    parts
        Comma-separated parts to measure: steps, precision, evaluation, scaling, processes, service, methods; or all.
        The default is steps,evaluation.
    methods
        Comma-separated methods to time against ER, with their training cost C_D; or all.
    rounds
        Number of rounds, in each of which all workloads take turns; the results are medians over rounds.
    threads
        Number of threads. The default is all cores.
    """
    from evenhand import bench as benchmark

    if parts is not None and not names.listed(parts):
        raise wrong("--parts", f"name some of {', '.join(benchmark.PARTS)}, or all", parts)
    if methods is not None and not names.listed(methods):
        raise wrong("--methods", "name at least one method, or all", methods)
    parts = parts or ("methods" if methods else "steps,evaluation")
    chosen = list(benchmark.PARTS) if parts == "all" else names.listed(parts)
    if methods and "methods" not in chosen:
        raise InputError(f"--methods needs the part methods. Use --parts {parts},methods, or leave out --parts.")
    measured = benchmark.measure(chosen, rounds, threads, methods)
    if json:
        print_json(measured)
    else:
        print_measured(measured)


def print_measured(measured: dict[str, Any]) -> None:
    """Print the tables of a benchmark."""
    console, machine = stdout(), measured["environment"]
    if "steps" in measured:
        console.print(_steps(measured["setting"], measured["steps"]))
        console.print(_ratios("Time of one step relative to another", measured["steps"]["ratios"]))
    for threads, part in measured.get("precision", {}).items():
        if "bf16" not in part["gemm_peak_gflops"]:
            print_line(console, "This hardware emulates bf16, so it is not timed.")
        console.print(_precision(f"{measured['setting']}, {threads}", part))
        console.print(_ratios("Time of one step relative to another", part["ratios"]))
    if "evaluation" in measured:
        rows = {name: row["to_eager"] for name, row in measured["evaluation"].items()}
        console.print(_ratios("Time to test 1000 images, relative to the first row", rows))
    if "scaling" in measured:
        console.print(_ratios("Time of an ER step, relative to memory 1000, 100 classes, 3x32x32", measured["scaling"]))
    if "processes" in measured:
        rates = measured["processes"]["steps_per_second"]
        rows = {name: row for name, row in measured["processes"].items() if name != "steps_per_second"}
        console.print(_ratios("Ratio of steps per second, processes x threads", rows))
        console.print("; ".join(f"{name}: {rate:.1f} steps/s" for name, rate in rates.items()), highlight=False)
    if "service" in measured:
        _print_service(measured["service"])
    if "methods" in measured:
        console.print(_methods(measured["setting"], measured["methods"]))
    facts = [
        f"{measured['rounds']} rounds",
        f"{machine['threads']} threads",
        f"{machine['processor']} ({machine['capability']})",
    ]
    if "steps" in measured:
        peak, memory = measured["steps"]["gemm_peak_gflops"], measured["steps"]["peak_memory_mb"]
        facts += [f"GEMM peak {peak:.0f} GFLOP/s", f"peak memory {memory:.0f} MB"]
    console.print(f"{', '.join(facts)}, torch {machine['torch']}.", highlight=False)


def _steps(setting: str, part: dict[str, Any]) -> Table:
    rates = {
        "samples/s": [f"{row['samples_per_second']:.0f}" for row in part["rows"].values()],
        "GFLOP/s": [f"{row['gflops']:.1f}" for row in part["rows"].values()],
    }
    return _timed(setting, part, rates, ("samples/s", "GFLOP/s", "outside"))


def _precision(setting: str, part: dict[str, Any]) -> Table:
    seconds = [row["run_seconds"] for row in part["rows"].values()]
    runs = {"run of CIFAR-100": ["" if run is None else f"{run / 60:.1f} min" for run in seconds]}
    return _timed(setting, part, runs, ("outside", "of GEMM peak"))


def _timed(setting: str, part: dict[str, Any], others: dict[str, list[str]], optional: Sequence[str]) -> Table:
    """What all tables of steps show, with further columns; the `optional` ones are left out of narrow terminals."""
    rows = part["rows"].values()
    columns = {
        "step": list(part["rows"]),
        "ms": [f"{row['median_ms']:.1f}" for row in rows],
        "/ plain loop": [f"{row['to_plain']['median']:.3f}" for row in rows],
        "95 % interval": [f"{row['to_plain']['low']:.3f} to {row['to_plain']['high']:.3f}" for row in rows],
        "of GEMM peak": [f"{row['of_peak']:.0%}" for row in rows],
        "outside": ["" if row["outside"] is None else f"{row['outside']:.1%}" for row in rows],
        **others,
    }
    table = fitting(columns, texts=("step",), optional=optional)
    table.title = setting
    return table


def _ratios(title: str, rows: dict[str, Any]) -> Table:
    table = Table(title=title, title_justify="left")
    for name in ("", "median", "95 % interval"):
        table.add_column(name, justify="right" if name else "left")
    for name, row in rows.items():
        table.add_row(name, f"{row['median']:.3f}", f"{row['low']:.3f} to {row['high']:.3f}")
    return table


def _print_service(part: dict[str, Any]) -> None:
    singles = part["singles"]
    for line in (
        f"{part['threads']} threads predict single samples while one learns: {part['errors']} errors, median "
        f"{part['p50_ms']:.1f} ms, 99 % within {part['p99_ms']:.1f} ms.",
        f"{part['predictions_per_second']:.0f} predictions/s; {part['threads']} samples to a call: "
        f"{part['predictions_per_second_in_batches']:.0f}/s.",
        f"Learning beside them: {part['learning_beside_them']:.0%} of its speed alone; beside the calls with "
        f"{part['threads']} samples: {part['learning_beside_batches']:.0%}.",
        f"{singles['count']:,} single samples learned: {singles['early_mb']:.0f} MB after a tenth, "
        f"{singles['late_mb']:.0f} MB at the end.",
    ):
        print_line(stdout(), line)


def _methods(setting: str, rows: dict[str, Any]) -> Table:
    table = Table(title=setting, title_justify="left")
    for name in ("method", "time / ER's", "95 % interval", "C_D counted", "C_D documented", "time / C_D counted"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for name, row in rows.items():
        took = row["time"]
        numbers = took["median"], row["c_d"], row["documented"], took["median"] / row["c_d"]
        first, *others = (f"{number:.2f}" for number in numbers)
        table.add_row(name, first, f"{took['low']:.2f} to {took['high']:.2f}", *others)
    return table
