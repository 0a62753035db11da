"""The page in a real browser: it fits every width, says nothing on the console and asks for nothing from outside."""

import json
import re
import shutil
import subprocess

import pytest

from evenhand.experiment.engine.dispatch import run_all
from evenhand.experiment.spec import Spec
from evenhand.report import write

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("chromium"), reason="Debian's package chromium is not installed"),
]

QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
PROBE = """
<pre id="probe"></pre><script>
addEventListener("load", () => {
  const wide = [...document.querySelectorAll("body *")].filter(e => {
    const scrolls = e.closest("table, .scroll") || getComputedStyle(e.parentElement).overflowX != "visible";
    return !scrolls && e.getBoundingClientRect().right > innerWidth + 1;
  });
  document.getElementById("probe").textContent = JSON.stringify({
    width: innerWidth, scroll: document.documentElement.scrollWidth, wide: wide.map(e => e.tagName).slice(0, 5),
    figures: [...document.querySelectorAll("svg")].filter(s => s.getBoundingClientRect().width > 50).length,
    asked: performance.getEntriesByType("resource").map(r => r.name),
  });
});
</script></body>
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    root = tmp_path_factory.mktemp("page")
    specs = [Spec.make(method=m, backbone="mlp", seed=s) for m in ("finetune", "er", "uer") for s in (0, 1)]
    write(run_all(specs, root, workers=1, threads=1), root / "page.html")
    return root / "page.html"


@pytest.mark.parametrize("width", [1400, 800, 500])
def test_the_page_fits_and_is_self_contained(page, tmp_path, width):
    probed = tmp_path / "probed.html"
    probed.write_text(page.read_text().replace("</body>", PROBE))
    command = ["chromium", *QUIET, f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},2000"]
    command += ["--enable-logging=stderr", "--dump-dom", probed.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(re.search(r'<pre id="probe">(.*?)</pre>', shown.stdout, re.DOTALL)[1])
    assert found["scroll"] <= found["width"]
    assert found["wide"] == []
    assert found["figures"] >= 8
    assert found["asked"] == []
    assert "CONSOLE" not in shown.stderr
