import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_examples_are_short_and_learn(path, tmp_path):
    assert len(path.read_text().splitlines()) <= 80
    done = subprocess.run([sys.executable, path], cwd=tmp_path, check=True, capture_output=True, text=True)
    percentages = [float(number) for number in re.findall(r"([\d.]+) %", done.stdout)]
    assert percentages[-1] > 60
