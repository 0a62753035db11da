"""The process of a run: what it does with freed memory."""

import subprocess
import sys

import pytest

FAULTS = """
import resource, torch
from evenhand.experiment.environment import keep_freed_memory
if {keep}:
    keep_freed_memory()
def work():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        held = [torch.ones(1 << 20) for _ in range(8)]  # 4 MiB each
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
work()
print(work())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="page faults and mallopt are those of Linux")
def test_freed_memory_is_used_again():
    faults = [
        int(subprocess.run([sys.executable, "-c", FAULTS.format(keep=keep)], capture_output=True, check=True).stdout)
        for keep in (True, False)
    ]
    assert faults[0] < 1000 < faults[1]  # 8 times 1024 pages are touched in each of five rounds
