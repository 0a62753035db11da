import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
EXTRAS = {"scikit_learn": "sklearn", "river_stream": "river"}
EXAMPLES = [
    pytest.param(path, id=path.stem, marks=pytest.mark.slow if path.stem in EXTRAS else ())
    for path in sorted(FOLDER.glob("*.py"))
]
PERCENT = re.compile(r"([\d.]+) %")


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Run an example in a folder of its own, once, and return what it prints."""

    @cache
    def run(path):
        pytest.importorskip(EXTRAS.get(path.stem, "evenhand"))
        folder = tmp_path_factory.mktemp(path.stem)
        return subprocess.run([sys.executable, path], cwd=folder, check=True, capture_output=True, text=True).stdout

    return run


@pytest.mark.parametrize("path", EXAMPLES)
def test_examples_are_short_and_learn(path, printed):
    assert len(path.read_text().splitlines()) <= 80
    assert float(PERCENT.findall(printed(path))[-1]) > 60


def test_the_minimal_loop_prints_what_it_shows(printed):
    path = FOLDER / "minimal.py"
    shown = "".join(f"{line}\n" for line in re.findall(r"^#     (?!python)(.*)$", path.read_text(), re.MULTILINE))
    out = printed(path)
    assert PERCENT.sub("%", out) == PERCENT.sub("%", shown)
    ours, theirs = ([float(number) for number in PERCENT.findall(text)] for text in (out, shown))
    assert ours == pytest.approx(theirs, abs=3)  # another processor sums in another order


@pytest.mark.slow
def test_a_memory_is_what_a_sorted_stream_needs(printed):
    out = printed(FOLDER / "river_stream.py")
    for data in ("ImageSegments", "Phishing"):
        ends = {name: float(end) for name, end in re.findall(rf"{data} by class, (.*): .*, ([\d.]+) % at the end", out)}
        assert ends["evenhand"] > ends["adaptive random forest"] + 20
