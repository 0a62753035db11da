"""What the README and the docs say is true: code runs, commands parse, numbers come from the records, links resolve."""

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import import_graph
import pytest
from cyclopts import MissingArgumentError

from evenhand import metrics
from evenhand.cli.app import app
from evenhand.core import registry

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("results/*.md")]
BLOCKS = re.findall(r"```python\n(.*?)```\s+```text\n(.*?)```", README, re.DOTALL)

# Runs commands in one process that may neither write below results/ nor start another process: only what the committed
# records answer succeeds. Prints the exit codes, the outputs and the records that were read.
READER = """
import contextlib, io, json, os, sys
from evenhand.cli.app import main
root, commands = sys.argv[1], json.loads(sys.argv[2])
read = set()

def watch(event, arguments):
    if event in ("subprocess.Popen", "os.fork", "os.posix_spawn"):
        raise RuntimeError(f"{event}: not all runs are committed")
    if event == "open" and str(arguments[0]).endswith("metrics.jsonl"):
        read.add(os.path.realpath(arguments[0]))
    if event == "open" and str(arguments[0]).startswith(root) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        raise RuntimeError(f"writes {arguments[0]}")

sys.addaudithook(watch)
answers = []
for command in commands:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            main(command)
        except SystemExit as end:
            code = end.code or 0
    answers.append([code, out.getvalue()])
print(json.dumps([answers, sorted(read)]))
"""


def commands(text):
    """The `evenhand` commands in the code blocks of a page, without comments and redirections."""
    text = re.sub(r"\\\n\s+", "", text)
    return re.findall(r"^(?: {4,}|exec )(evenhand .*?)(?:  +#.*| > .*)?$", text, re.MULTILINE)


def mentions(text):
    """The commands that a page names in a sentence or a table; these may lack arguments."""
    return re.findall(r"`(evenhand [^`]+)`", text.replace("\n", " "))


def arguments(command):
    """The arguments that a shell passes, with its substitutions made."""
    assert not re.search(r"[<>|&;]", re.sub(r"\"[^\"]*\"", "", command)), command
    shell = f"evenhand() {{ printf '%s\\0' \"$@\"; }}; {command}"
    variables = {**os.environ, "SLURM_CPUS_PER_TASK": "8", "SCRATCH": "/scratch"}
    done = subprocess.run(["bash", "-c", shell], cwd=ROOT, env=variables, check=True, capture_output=True, text=True)
    return done.stdout.split("\0")[:-1]


def answer(*lines, cwd=ROOT):
    """Run commands upon the committed records alone; returns their outputs and the folders of the records read."""
    given = json.dumps([arguments(line) for line in lines])
    call = [sys.executable, "-c", READER, str(ROOT / "results"), given]
    done = subprocess.run(call, cwd=cwd, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    answers, read = json.loads(done.stdout)
    assert [code for code, _ in answers] == [0] * len(lines), list(zip(lines, answers, strict=True))
    return [out for _, out in answers], {Path(path).parent for path in read}


def cells(text, first):
    """The cells of the row of a Markdown table that begins with `first`."""
    (row,) = re.findall(rf"^\| `{first}` \|(.*)\|$", text, re.MULTILINE)
    return [cell.strip() for cell in row.split("|")]


@pytest.fixture(scope="module")
def readme_outputs(tmp_path_factory):
    """What the README's experiment and reproduction print, as JSON, and the folder in which they ran."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "results").symlink_to(ROOT / "results")
    lines = re.findall(r"^    (evenhand .*)$", README, re.MULTILINE)
    outputs, _ = answer(*[line if "report" in line else f"{line} --json" for line in lines], cwd=folder)
    names = [" ".join(re.search(r"evenhand (\w+) .*\bresults/(\w+)", line).groups()) for line in lines]
    return dict(zip(names, outputs, strict=True)), folder


@pytest.mark.parametrize(("code", "shown"), BLOCKS, ids=range(len(BLOCKS)))
def test_python_blocks_print_what_the_readme_shows(code, shown, capsys):
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    percent = re.compile(r"\d+ %")
    assert percent.sub("%", printed).split() == percent.sub("%", shown).split()
    ours, theirs = ([int(number[:-2]) for number in percent.findall(text)] for text in (printed, shown))
    assert ours == pytest.approx(theirs, abs=3)  # another processor sums in another order


@pytest.mark.slow
def test_python_blocks_about_adapters_run(capsys):
    pytest.importorskip("sklearn")
    pytest.importorskip("river")
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs/adapters.md").read_text(), re.DOTALL):
        exec(compile(block, "adapters.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == ["True", "True", "torch.Size([8])"]


def test_every_python_block_is_run():
    assert len(BLOCKS) == README.count("```python") == 2


def test_the_table_of_the_experiment_is_what_its_command_prints(readme_outputs):
    outputs, folder = readme_outputs
    table = README.split("## One experiment")[1].split("## ")[0]
    for group in json.loads(outputs["run demo"])["results"]:
        names = ("final_accuracy", "interval", "previous", "current", "forgetting")
        expected = [f"{100 * group[name]:.1f}" for name in names]
        assert [cell.removeprefix("± ") for cell in cells(table, group["method"])] == expected
    assert "<svg" in (folder / "report.html").read_text()


def test_the_paired_differences_are_what_the_command_prints(readme_outputs):
    shown = re.findall(r"([+-][\d.]+) ± ([\d.]+) with (?:a memory of )?(\d+)", README)
    assert len(shown) == 3
    rows = json.loads(readme_outputs[0]["runs demo"])["comparisons"]
    for difference, half, memory in shown:
        (row,) = [row for row in rows if row["method"] == "uer" and row["memory"] == int(memory)]
        assert f"{100 * row['difference']:+.1f} {100 * row['difference_interval']:.1f}" == f"{difference} {half}"


def test_the_reproduced_numbers_are_those_of_the_records(readme_outputs):
    (section,) = json.loads(readme_outputs[0]["paper paper"])["sections"]
    text = README.split("## Reproduction")[1]
    for row in section["rows"]:
        ours, published = f"{row['ours']:.1f}", f"{row['paper']:.1f}"
        assert re.search(rf"\b{row['name']} \(?{ours}( %\*\* \((paper: )?{published}\))?", text), row


def test_the_numbers_beyond_the_paper_are_what_the_command_prints(readme_outputs):
    table = README.split("## Beyond the paper")[1].split("\n## ")[0]
    shown = {}
    for group in json.loads(readme_outputs[0]["run paper"])["results"]:
        previous, current = (f"{100 * group[name]:.1f}" for name in ("previous", "current"))
        accuracy = f"{100 * group['final_accuracy']:.1f} ± {100 * group['interval']:.1f}"
        shown[group["method"]] = f"{accuracy} ({previous} / {current})"
    assert cells(table, "uer") == [shown["uer"], shown["uer+ema"]]
    assert cells(table, "pcr") == [shown["pcr"], shown["pcr+ema"]]


def test_the_figure_says_what_the_records_say():
    ends = {}
    for method in ("er", "uer"):
        files = ROOT.glob(f"results/demo/{method}-fashion-cut-m50-s*/metrics.jsonl")
        last = [json.loads(file.read_text().splitlines()[-1])["accuracy"] for file in files]
        ends[method] = [100 * metrics.mean([f([a]) for a in last]) for f in (metrics.current, metrics.previous)]
    (er, er_old), (uer, uer_old) = ends["er"], ends["uer"]
    assert f"ends {er - er_old:.0f} points better on its newest classes" in README
    assert f"ends {uer - uer_old:.0f} points apart, with {uer_old:.0f} instead of {er_old:.0f} %" in README


def test_the_table_of_methods_names_every_method():
    table = README.split("## Methods")[1].split("\n## ")[0]
    named = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)))
    assert sorted(named) == sorted(registry.recipes())


def test_make_targets_exist():
    targets = {t for page in PAGES for t in re.findall(r"(?:^    |`)make ([a-z-]+)", page.read_text(), re.MULTILINE)}
    assert {"demo", "test"} <= targets
    assert targets <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_is_one_that_evenhand_takes(page):
    for command in commands(page.read_text()):
        app.parse_args(arguments(command), exit_on_error=False, print_error=False)
    for command in mentions(page.read_text()):
        with contextlib.suppress(MissingArgumentError):
            app.parse_args(arguments(command), exit_on_error=False, print_error=False)


def anchors(page):
    """The anchors of a page: of its headings, and those that it sets itself."""
    text = page.read_text()
    titles = re.findall(r"^#+ (.*)$", text.lower(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", t).replace(" ", "-") for t in titles} | set(re.findall(r'<a id="(.*?)"', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page):
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_paths_named_by_contributing_exist():
    named = re.findall(r"`((?:[\w.]+/)*[\w.]+(?:\.py|\.toml|\.md|\.lock|/))`", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(named) > 20
    for path in named:
        assert (ROOT / path).exists() or (ROOT / "src/evenhand" / path).exists(), path


def test_the_import_graph_shows_every_package():
    package = ROOT / "src/evenhand"
    units = {p.stem for p in package.glob("*.py")} | {p.parent.name for p in package.glob("*/__init__.py")}
    picture = (ROOT / "docs/figures/imports.svg").read_text()
    assert set(re.findall(r"<text x=[^>]*>(\w+)</text>", picture)) == units - {"__init__"}
    assert picture == import_graph.svg(package), "run: python scripts/import_graph.py"


@pytest.mark.slow
def test_the_commands_of_results_find_every_committed_record():
    lines = [line for line in commands((ROOT / "results/README.md").read_text()) if "--root results/" in line]
    _, read = answer(*lines)
    assert read == {path.parent for path in ROOT.glob("results/*/*/metrics.jsonl")}
