import subprocess
import sys
from pathlib import Path

import load_test
import pytest


@pytest.mark.slow
def test_five_hundred_runs_in_two_processes_are_all_whole():
    assert load_test.grid(500)["whole"] == 500


@pytest.mark.slow
def test_a_million_samples_leave_the_memory_flat():
    """In a process of its own, whose memory nothing else has grown or freed."""
    code = "import load_test; print(load_test.stream(1_000_000)['growth'])"
    scripts = Path(load_test.__file__).parent
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=scripts).stdout
    assert abs(float(printed)) < 0.05


def test_checkpoints_are_measured(monkeypatch):
    monkeypatch.setattr(load_test, "CHECKPOINTS", 3)
    rows = load_test.checkpoints()
    assert list(rows) == ["memory 1,000", "memory 5,000", "memory 10,000"]
    assert rows["memory 10,000"]["megabytes"] > 3 * 32 * 32 * 10_000 / 1e6
    assert all(row["share"] == pytest.approx(row["ms"] / 60_000) for row in rows.values())
