"""The process of a run: what it does with freed memory."""

import os
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
    for _ in range(50):
        held = [torch.ones(1 << 20) for _ in range(8)]  # 4 MiB each
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
work()
print(work())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="page faults and mallopt are those of Linux")
def test_freed_memory_is_used_again():
    eager = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_MMAP_THRESHOLD_": "65536"}  # to give memory back
    faults = [
        int(subprocess.check_output([sys.executable, "-c", FAULTS.format(keep=keep)], env=eager))
        for keep in (True, False)
    ]
    assert faults[0] < 100 < 400 <= faults[1]  # else at least one for each of the 400 tensors, however large a page
