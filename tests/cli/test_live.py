import io
import re

import pytest
from rich.console import Console

from evenhand.cli.live import FEW, Watch, clock
from evenhand.experiment.engine.queue import Failure, Reused
from evenhand.experiment.result import Result
from evenhand.experiment.run import Note, Progress
from evenhand.experiment.spec import Spec


def specs_of(count, **fields):
    return [Spec.make(method="er", seed=seed, **fields) for seed in range(count)]


def place(spec, step, accuracy=None, rate=100.0):
    return Progress(spec.key, step, 500, step // 100 + 1, 5, rate, 10, accuracy)


def done(spec, accuracy=0.5):
    return Result(spec, spec.key, [{"accuracy": [accuracy + 0.3]}, {"accuracy": [accuracy] * 2}], ("a",), 63.4, {})


def failed(spec, cause="mistake", sentence="The loss is no longer finite."):
    return Failure(spec, cause, sentence)


@pytest.fixture
def now(monkeypatch):
    """A clock that stands still until it is set."""
    time = [1000.0]
    monkeypatch.setattr("evenhand.cli.live.time.monotonic", lambda: time[0])
    return time


def watch_of(specs, terminal=False, width=100, height=24, until=None):
    options = {"force_terminal": True, "color_system": "standard"} if terminal else {"force_terminal": False}
    console = Console(file=io.StringIO(), width=width, height=height, legacy_windows=False, **options)
    return Watch(specs, console, until)


def said(watch):
    """The lines of a log, without the time of day."""
    lines = watch.console.file.getvalue().splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d \[", line) for line in lines)
    return [line[9:] for line in lines]


def drawn(watch):
    """The lines of the picture without colours."""
    with watch.console.capture() as capture:
        watch.console.print(watch.picture())
    return [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", capture.get()).splitlines()]


def cells(lines, start):
    [line] = [line for line in lines if line.startswith(start)]
    return re.split(r"\s{2,}", line.replace("━", "").replace("╸", "").replace("╺", "").strip())


# A log ----------------------------------------------------------------------------------------------------------------


def test_a_log_has_a_line_at_each_stage_and_each_end():
    first, second = specs = specs_of(2)
    with watch_of(specs) as watch:
        watch(Reused(0, 2))
        for step in (20, 40, 99, 120):
            watch(place(first, step, accuracy=0.9 if step > 99 else None))
        watch(done(first, 0.423))
        watch(failed(second))
    assert said(watch) == [
        "[0/2] er seed 0: stage 1/5, step 20/500, 100 samples/s",
        "[0/2] er seed 0: stage 2/5, step 120/500, 100 samples/s, accuracy 90.0 %",
        "[1/2] er seed 0: done, accuracy 42.3 %, 63 s",
        "[2/2] er seed 1: The loss is no longer finite.",
    ]


def test_runs_that_are_there_already_count():
    specs = specs_of(5)
    with watch_of(specs) as watch:
        watch(Reused(3, 5))
        watch(done(specs[3]))
    assert [line[:5] for line in said(watch)] == ["[3/5]", "[4/5]"]
    assert said(watch)[0] == "[3/5] Reusing 3 of 5 runs."


def test_a_note_is_said_with_the_run_that_it_is_about():
    specs = specs_of(2)
    with watch_of(specs) as watch:
        watch(Note(specs[1].key, "Its process died. Trying again."))
        watch(Note("", "The cluster has no [red]GPU[/]."))
    assert said(watch) == ["[0/2] er seed 1: Its process died. Trying again.", "[0/2] The cluster has no [red]GPU[/]."]


def test_what_was_asked_to_stop_says_so_and_what_was_to_pause_does_not():
    specs = specs_of(3)
    with watch_of(specs, until=2) as watch:
        watch(failed(specs[0], "paused", "Stage 2 has ended."))
        watch(failed(specs[1], "stopped", "Stopped at step 7."))
        watch(failed(specs[2], "stopped", "Not started."))
    assert said(watch) == ["[1/3] er seed 1: Stopped at step 7.", "[1/3] er seed 2: Not started."]


def test_a_log_of_many_runs_has_one_line_for_each():
    specs = specs_of(500)
    with watch_of(specs) as watch:
        watch(Reused(0, 500))
        for spec in specs[:300]:
            for step in (10, 110, 210, 310, 410):
                watch(place(spec, step, 0.5))
            watch(done(spec))
        watch(place(specs[300], 10))
        for spec in specs[300:]:
            watch(failed(spec, "stopped", "Stopped."))
    assert len(said(watch)) == 302
    assert said(watch)[299].startswith("[300/500] er seed 299: done")
    assert said(watch)[300:] == ["[300/500] er seed 300: Stopped.", "[300/500] 199 runs were not started."]


def test_a_single_run_that_was_not_started():
    specs = specs_of(FEW + 1)
    with watch_of(specs) as watch:
        watch(Reused(FEW, FEW + 1))
        watch(failed(specs[0], "stopped", "Not started."))
    assert said(watch)[-1] == f"[{FEW}/{FEW + 1}] 1 run was not started."


@pytest.mark.parametrize(("count", "lines"), [(FEW, 1), (FEW + 1, 0)])
def test_stages_of_few_runs_alone_have_a_line(count, lines):
    specs = specs_of(count)
    with watch_of(specs) as watch:
        watch(place(specs[0], 10))
    assert len(said(watch)) == lines


def test_a_log_is_not_wrapped_nor_coloured():
    [spec] = specs_of(1, data="npz:/" + "x" * 200)
    with watch_of([spec], width=40) as watch:
        watch(failed(spec, sentence="Word " * 50))
    assert len(said(watch)) == 1
    assert "\x1b" not in watch.console.file.getvalue()


# A terminal -----------------------------------------------------------------------------------------------------------


def grid(height=24, width=100):
    """Twelve runs: four done, one failed, three running, four waiting."""
    specs = specs_of(12)
    watch = watch_of(specs, terminal=True, width=width, height=height)
    watch(Reused(0, 12))
    for spec in specs[:5]:
        watch(place(spec, 120, 0.9))
    for spec in specs[:4]:
        watch(done(spec, 0.4))
    watch(failed(specs[4]))
    watch(place(specs[5], 250, 0.6, rate=50))
    watch(place(specs[6], 499, 0.44))
    watch(place(specs[7], 5))
    return watch


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_has_a_row_for_every_run(now, width):
    lines = drawn(grid(width=width))
    assert re.split(r"\s{2,}", lines[0]) == ["4/12 done", "3 running", "1 failed", "4 waiting"]
    assert cells(lines, "run")[1:] == ["state", "stage", "samples/s", "accuracy", "left"]
    assert cells(lines, "er seed 5") == ["er seed 5", "3/5", "50", "60.0 %", "0:00:50"]  # 250 batches of ten are left
    assert cells(lines, "er seed 7") == ["er seed 7", "1/5", "100", "0:00:50"]
    assert cells(lines, "er seed 4") == ["er seed 4", "failed", "2/5"]
    assert cells(lines, "er seed 0") == ["er seed 0", "done", "5/5", "40.0 %"]
    assert cells(lines, "er seed 11") == ["er seed 11", "waiting"]
    order = [int(line.split()[2]) for line in lines if line.startswith("er")]
    assert order == [5, 6, 7, 4, 0, 1, 2, 3, 8, 9, 10, 11]
    assert max(map(len, lines)) <= width
    assert len(lines) == 4 + 12


def test_bars_are_as_long_as_what_is_done(now):
    watch = grid()
    watch.console.no_color = True  # where a bar has no part for what is to come
    rows = [line for line in drawn(watch) if line.startswith(("er seed 5", "er seed 6", "er seed 7"))]
    assert [line.count("━") for line in rows] == [10, 19, 0]
    assert drawn(watch)[1].count("━") == int(40 * (5 + 0.5 + 0.998 + 0.01) / 12)


def test_no_runs_at_all(now):
    assert drawn(watch_of([], terminal=True))[0] == "0/0 done"


@pytest.mark.parametrize("height", [7, 9, 12, 15, 24, 60])
def test_the_picture_fits_the_terminal_and_says_what_is_hidden(now, height):
    lines = drawn(grid(height))
    assert len(lines) < height
    shown = [line for line in lines if line.startswith("er ")]
    assert len(shown) == min(12, height - 6)
    rest = {7: "2 more running, 1 more failed, 4 more done, 4 more waiting", 12: "2 more done, 4 more waiting"}
    if height in rest:
        assert lines[-1] == rest[height]
    assert ("more" in lines[-1]) == (len(shown) < 12)


def test_five_hundred_runs_in_a_small_terminal(now):
    specs = specs_of(500)
    watch = watch_of(specs, terminal=True, width=40, height=3)
    with watch:
        watch(Reused(100, 500))
        for spec in specs[100:400]:
            watch(place(spec, 100, 0.2))
            watch(done(spec))
        watch(place(specs[400], 100, 0.2))
    lines = drawn(watch)
    assert lines[0] == "400/500 done  1 running  99 waiting"
    assert lines[-1] == "300 more done, 99 more waiting"


def test_which_runs_wait_is_not_told_where_some_are_there_already(now):
    specs = specs_of(5)
    watch = watch_of(specs, terminal=True)
    watch(Reused(2, 5))
    watch(place(specs[2], 10))
    lines = drawn(watch)
    assert lines[0] == "2/5 done  1 running  2 waiting"
    assert [line.split()[2] for line in lines if line.startswith("er ")] == ["2"]
    assert lines[-1] == "2 more waiting"


def test_time_left_follows_from_what_this_command_has_done(now):
    specs = specs_of(4)
    watch = watch_of(specs, terminal=True)
    watch(Reused(1, 4))
    assert "left" not in drawn(watch)[1]
    watch(place(specs[1], 250))  # it goes on from here
    assert "left" not in drawn(watch)[1]
    now[0] += 60
    watch(place(specs[1], 500))
    assert cells(drawn(watch)[1:2], "━")[-3:] == ["50 %", "0:01:00 elapsed", "0:04:00 left"]  # half a run in a minute
    watch(done(specs[1]))
    watch(done(specs[2]))
    assert cells(drawn(watch)[1:2], "━")[-1] == "0:00:40 left"
    watch(failed(specs[3]))
    assert cells(drawn(watch)[1:2], "━")[-3:] == ["100 %", "0:01:00 elapsed", "0:00:00 left"]


def test_a_run_that_is_to_pause_is_complete_there(now):
    [spec] = specs_of(1)
    watch = watch_of([spec], terminal=True, until=2)
    watch(place(spec, 100, rate=10))
    assert cells(drawn(watch), "er")[-1] == "0:01:40"
    watch(place(spec, 150))
    assert "75 %" in drawn(watch)[1]
    watch(failed(spec, "paused"))
    lines = drawn(watch)
    assert lines[0] == "0/1 done  1 paused"
    assert "100 %" in lines[1]
    assert cells(lines, "er") == ["er seed 0", "paused", "2/5"]


def test_word_that_comes_after_the_end_changes_nothing(now):
    [spec] = specs_of(1)
    watch = watch_of([spec], terminal=True)
    watch(done(spec, 0.4))
    watch(place(spec, 400, 0.9))
    assert cells(drawn(watch), "er") == ["er seed 0", "done", "40.0 %"]


def test_a_run_that_stands_still_has_no_time_left(now):
    [spec] = specs_of(1)
    watch = watch_of([spec], terminal=True)
    watch(place(spec, 5, rate=0.0))
    assert cells(drawn(watch), "er") == ["er seed 0", "1/5"]


def test_a_long_name_keeps_both_ends_and_brackets_are_no_markup(now):
    method = "mir(candidates=100)+uer(alpha=0.3)"
    specs = [Spec.make(method=method, data=data, seed=12) for data in ("npz:[/red].npz", "npz:[red].npz")]
    watch = watch_of(specs, terminal=True, width=80)
    watch(place(specs[0], 5))
    row = next(line for line in drawn(watch) if line.startswith("mir"))
    assert re.match(r"mir\(candidates…\S+ seed 12  ", row)
    assert "0:00:50" in row
    watch.console.width = 140
    assert [line.split()[1] for line in drawn(watch) if line.startswith("mir")] == ["npz:[/red].npz", "npz:[red].npz"]


def test_a_terminal_has_the_table_below_what_was_said_and_loses_it_at_the_end():
    specs = specs_of(2)
    watch = watch_of(specs, terminal=True)
    with watch:
        watch(place(specs[0], 10))
        watch.live.refresh()
        assert "waiting" in watch.console.file.getvalue()
        assert "step 10/500" not in watch.console.file.getvalue()
        watch(done(specs[0]))
    assert "[1/2] er seed 0: done, accuracy 50.0 %" in watch.console.file.getvalue()
    assert watch.console.file.getvalue().rstrip().endswith("\x1b[2K")  # the last thing is that it is wiped


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00:00"), (59.6, "0:01:00"), (3661, "1:01:01"), (360000, "100:00:00")]
)
def test_clock(seconds, text):
    assert clock(seconds) == text
