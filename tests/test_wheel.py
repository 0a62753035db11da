"""The wheel, installed into an environment of its own and used from an empty folder."""

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[1]


def test_the_wheel_works_alone(tmp_path):
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(PROJECT)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    [wheel] = tmp_path.glob("*.whl")
    assert wheel.stat().st_size < 3_500_000
    home, empty = tmp_path / "environment", tmp_path / "empty"
    empty.mkdir()
    venv.create(home, with_pip=True)
    pip = [home / "bin/pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--constraint", PROJECT / "requirements.lock", f"{wheel}[report]"], check=True)

    def evenhand(*arguments):
        done = subprocess.run(
            [home / "bin/evenhand", *arguments], cwd=empty, check=True, capture_output=True, text=True
        )
        return done.stdout

    out = evenhand("run", "uer", "--backbone", "mlp", "--json")
    [result] = json.loads(out)["results"]
    assert result["final_accuracy"] > 0.5
    evenhand("report", "-o", "page.html")
    assert "<svg" in (empty / "page.html").read_text()
    shown = subprocess.run(
        [home / "bin/python", "-c", "import evenhand; print(evenhand.__file__)"],
        cwd=empty,
        check=True,
        capture_output=True,
        text=True,
    )
    assert Path(shown.stdout.strip()).is_relative_to(home)
    assert list(home.rglob("embedded/NOTICE"))
