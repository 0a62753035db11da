"""Disks that are really full, or really read-only: mounted for the test, which needs root."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager

import pytest

from experiment.victims import end, finish

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")]

FIELDS = {"method": "uer", "backbone": "mlp(hidden=16)", "memory": 50}
COMMAND = [sys.executable, "-m", "evenhand", "run", "uer", "--backbone", "mlp(hidden=16)", "--memory", "50"]


@contextmanager
def mounted(place, options):
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)


def run(root):
    return subprocess.run(
        [*COMMAND, "--threads", "1", "--root", str(root)], capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("whole")
    assert finish(FIELDS, root) == 0
    return end(FIELDS, root)


def test_a_disk_that_fills_up_in_the_middle(tmp_path, whole):
    """It has room for some checkpoints; what takes the rest of it is removed afterwards."""
    root = tmp_path / "disk"
    with mounted(root, "size=600k"):
        (root / "ballast").write_bytes(bytes(330_000))
        full = run(root)
        assert full.returncode == 2
        assert re.search(r"\S+ cannot be written: No space left on device\.", full.stderr)
        assert "Traceback" not in full.stderr
        assert list(root.glob("*/state*.safetensors"))
        (root / "ballast").unlink()
        assert run(root).returncode == 0
        assert end(FIELDS, root) == whole


def test_a_disk_that_becomes_read_only(tmp_path, whole):
    root = tmp_path / "disk"
    with mounted(root, "size=10m"):
        subprocess.run(["mount", "-o", "remount,ro", root], check=True)
        refused = run(root)
        assert refused.returncode == 2
        assert "cannot be written: Read-only file system." in refused.stderr
        assert "Traceback" not in refused.stderr
        subprocess.run(["mount", "-o", "remount,rw", root], check=True)
        assert run(root).returncode == 0
        assert end(FIELDS, root) == whole
        subprocess.run(["mount", "-o", "remount,ro", root], check=True)
        listed = subprocess.run([*COMMAND[:3], "runs", str(root)], capture_output=True, text=True, timeout=120)
        assert listed.returncode == 0
        assert "done" in listed.stdout
