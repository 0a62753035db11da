"""What the terminal shows of a benchmark."""

from typing import Any

from rich.table import Table

from evenhand.show import stdout


def show(measured: dict[str, Any]) -> None:
    """Print what `measure` returned."""
    console, where = stdout(), measured["environment"]
    if "steps" in measured:
        console.print(_steps(measured["setting"], measured["steps"]))
        console.print(_ratios("one step against another", measured["steps"]["ratios"]))
    if "evaluation" in measured:
        rows = {name: row["to_eager"] for name, row in measured["evaluation"].items()}
        console.print(_ratios("testing 1000 images, against the first", rows))
    if "scaling" in measured:
        console.print(_ratios("a step of ER, against memory 1,000, 100 classes, 3x32x32", measured["scaling"]))
    if "processes" in measured:
        rates = measured["processes"]["steps_per_second"]
        rows = {name: row for name, row in measured["processes"].items() if name != "steps_per_second"}
        console.print(_ratios("steps per second, processes x threads", rows))
        console.print("; ".join(f"{name}: {rate:.1f} steps/s" for name, rate in rates.items()), highlight=False)
    if "load" in measured:
        console.print(_load(measured["load"]))
    if "methods" in measured:
        console.print(_methods(measured["setting"], measured["methods"]))
    told = [
        f"{measured['rounds']} rounds",
        f"{where['threads']} threads",
        f"{where['processor']} ({where['capability']})",
    ]
    if "steps" in measured:
        peak, memory = measured["steps"]["gemm_peak_gflops"], measured["steps"]["peak_memory_mb"]
        told += [f"GEMM peak {peak:.0f} GFLOP/s", f"peak memory {memory:.0f} MB"]
    console.print(f"{', '.join(told)}, torch {where['torch']}.", highlight=False)


def _steps(setting: str, part: dict[str, Any]) -> Table:
    table = Table(title=setting, title_justify="left")
    for name in ("step", "ms", "/ plain loop", "95 % interval", "samples/s", "GFLOP/s", "of GEMM peak", "outside"):
        table.add_column(name, justify="left" if name == "step" else "right", no_wrap=True)
    for name, row in part["rows"].items():
        took = row["to_plain"]
        outside = "" if row["outside"] is None else f"{row['outside']:.1%}"
        numbers = (f"{row['median_ms']:.1f}", f"{took['median']:.3f}", f"{took['low']:.3f} to {took['high']:.3f}")
        rates = (f"{row['samples_per_second']:.0f}", f"{row['gflops']:.1f}", f"{row['of_peak']:.0%}", outside)
        table.add_row(name, *numbers, *rates)
    return table


def _ratios(title: str, rows: dict[str, Any]) -> Table:
    table = Table(title=title, title_justify="left")
    for name in ("", "median", "95 % interval"):
        table.add_column(name, justify="right" if name else "left")
    for name, row in rows.items():
        table.add_row(name, f"{row['median']:.3f}", f"{row['low']:.3f} to {row['high']:.3f}")
    return table


def _load(part: dict[str, Any]) -> Table:
    grid, stream = part["grid"], part["stream"]
    table = Table("what", "measured", title="load", title_justify="left")
    table.add_row("tiny runs in two processes, whole", f"{grid['whole']} of {grid['runs']}")
    table.add_row("overhead of a run, start of the processes included", f"{grid['overhead_ms_per_run']:.0f} ms")
    table.add_row(f"growth of memory over {stream['samples']:,} samples", f"{stream['growth']:.1%}")
    table.add_row("speed of the last tenth / the first", f"{stream['last_to_first']:.3f}")
    for name, row in part["checkpoints"].items():
        told = f"{row['ms']:.0f} ms for {row['megabytes']:.0f} MB: {row['share']:.2%} of the time between two"
        table.add_row(f"checkpoint of a CIFAR-100 run, {name}", told)
    return table


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
