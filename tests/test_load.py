"""Many runs and long streams; how fast they are is measured by `evenhand bench --parts load`."""

import subprocess
import sys

import pytest

from evenhand.bench import load


@pytest.mark.slow
def test_five_hundred_runs_in_two_processes_are_all_whole():
    assert load.grid(500)["whole"] == 500


@pytest.mark.slow
def test_a_million_samples_leave_the_memory_flat():
    """In a process of its own, whose memory nobody else has grown or freed."""
    code = "from evenhand.bench import load; print(load.stream(1_000_000)['growth'])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert abs(float(printed)) < 0.05


def test_checkpoints_are_measured():
    rows = load.checkpoints(3)
    assert list(rows) == ["memory 1,000", "memory 5,000", "memory 10,000"]
    assert rows["memory 10,000"]["megabytes"] > 3 * 32 * 32 * 10_000 / 1e6
    assert all(row["share"] == pytest.approx(row["ms"] / 60_000) for row in rows.values())
