"""The page about averaged weights: pairs from the same trainings, and what a stream that does not wait leaves."""

import json

import beyond
import pytest

from evenhand import errors
from evenhand.core import registry
from evenhand.core.sizes import Sizes
from paper.made import spec_of, write


def run(root, spec, own, **others):
    """A finished run of three stages; accuracies are (previous, current), those of `others` by the way to test."""
    folder = write(root, spec, *own)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line["tests"] = {
            way: {"accuracy": [previous] * (line["stage"] - 1) + [current], "probability": line["probability"]}
            for way, (previous, current) in others.items()
        }
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def page(tmp_path):
    """UER leads ER by 10 points, by 4.7 with averaged weights; MIR misses batches."""
    paper = {"memory": 1000, "tests": "ema"}
    for seed in (0, 1):
        run(tmp_path / "paper", spec_of("er", seed=seed, **paper), (0.1, 0.4), ema=(0.3, 0.3))
        run(tmp_path / "paper", spec_of("uer", seed=seed, **paper), (0.3, 0.3), ema=(0.34 + seed / 50, 0.34))
    write(tmp_path / "paper", spec_of("uer", seed=2, memory=1000), 0.9, 0.9)  # not tested with averaged weights
    for probe in ({"softmax": "all"}, {"neck": True}, {"passes": "separate"}):
        run(tmp_path / "paper", spec_of("uer", seed=0, **paper, **probe), (0.9, 0.9), ema=(0.9, 0.9))
    small = {"data": "fashion-cut", "memory": 200, "backbone": "small_cnn"}
    for method, level in (("er", 0.5), ("mir", 0.6)):
        others = {way: [level + more] * 2 for way, more in {"ema": 0.1, "ncm": 0.2, "ema+ncm": 0.3}.items()}
        run(tmp_path / "embedded", spec_of(method, tests=", ".join(others), **small), (level, level), **others)
    for root, stream in (("embedded", small), ("paper", {"memory": 1000})):
        moving = spec_of("mir", tests="ema", pace="realtime", **stream)
        run(tmp_path / root, moving, (0.4, 0.4), ema=(0.45, 0.45))
    write(tmp_path / "protocol", spec_of("mir", memory=1000), 0.6, 0.6)
    write(tmp_path / "protocol", spec_of("mir", memory=1000, softmax="all"), 0.9, 0.9)  # another stream
    others = {
        "cos": (0.0, 0.0),
        "ema(decay=0.99, by_row=False)": (0.2, 0.3),
        "ema(decay=0.995, by_row=False)": (0.3, 0.1),
        "ema": (0.3, 0.2),
    }
    searched = spec_of("uer", seed=1, tested="validation", tests=", ".join(others))
    run(tmp_path / "search", searched, (0.1, 0.2), **others)
    other = spec_of("uer(alpha=0.25)", seed=1, tested="validation", tests="ema")
    run(tmp_path / "search", other, (0.1, 0.4), ema=(0.3, 0.1))
    beyond.write(tmp_path / "page.md", tmp_path)
    [found] = [one for one in beyond.results_in(tmp_path / "search") if one.spec == searched]
    return (tmp_path / "page.md").read_text(), beyond.decays(found), (tmp_path / "page/decay.svg").read_text()


def test_no_page_is_made_without_a_damaged_run(tmp_path):
    (write(tmp_path, spec_of("er")) / "metrics.jsonl").write_text("{")
    write(tmp_path, spec_of("uer"))
    with pytest.raises(errors.RunError, match="metrics.jsonl is damaged"):
        beyond.results_in(tmp_path)


def test_both_tests_are_from_the_same_trainings(page):
    text, _, _ = page
    assert "**Split CIFAR100, \\|M\\| = 1000; the paper's UER: 24.6**" in text
    assert "| `er` | 20.0 ± 0.0 (10.0 / 40.0) | 30.0 ± 0.0 (30.0 / 30.0) | +10.0 ± 0.0 | 2 |" in text
    assert "| `uer` | 30.0 ± 0.0 (30.0 / 30.0) | 34.7 ± 8.5 (35.0 / 34.0) | +4.7 ± 8.5 | 2 |" in text
    assert "UER minus the paper's: +5.4 ± 0.0 with the latest weights, +10.1 ± 8.5 with averaged ones." in text
    assert "UER minus ER: +10.0 ± 0.0 with the latest weights, +4.7 ± 8.5 with averaged ones." in text


def test_a_method_that_costs_no_more_than_er_has_no_entry_in_real_time(page):
    text, _, _ = page
    mir = f"| `mir` | {registry.cost('mir'):.2f} | 60.0 | 70.0 | 80.0 | 90.0 | +10.0 | 40.0 | 45.0 |"
    er = "| `er` | 1.00 | 50.0 | 60.0 | 70.0 | 80.0 | +10.0 |  |  |"
    assert 0 < text.index(mir) < text.index(er)


def test_a_run_in_real_time_stands_beside_those_that_wait_on_the_same_stream(page):
    text, _, _ = page
    table = text[text.index("**Split CIFAR100, \\|M\\| = 1000, one seed**") :]
    cost = registry.cost("mir", Sizes(views=2))  # as the paper's preset has them
    assert f"| `mir` | {cost:.2f} | 60.0 |  |  | 40.0 | 45.0 |" in table
    assert "| `uer` | 1.00 | 30.0 | 34.0 | +4.0 |  |  |" in table
    assert "90.0" not in table


def test_alphas_stand_beside_the_weights_that_were_asked(page):
    text, _, _ = page
    table = text[text.index("| alpha | latest weights | average 0.99 |") :]
    assert "| 0.25 | 20.0 (10.0 / 40.0) |  |  | 23.3 (30.0 / 10.0) |" in table
    assert "| 0.5 | 13.3 (10.0 / 20.0) | 23.3 (20.0 / 30.0) |  | 26.7 (30.0 / 20.0) |" in table


def test_the_figure_shows_each_decay_by_its_steps(page):
    _, panel, drawn = page
    assert panel.xs == (1, 100, 200, 500)
    means = {curve.name: [point and round(point.mean, 1) for point in curve.points] for curve in panel.curves}
    assert means["current"] == [20.0, 30.0, 10.0, None]
    assert means["current, by row"] == [20.0, None, None, 20.0]
    assert "Split CIFAR100" in drawn


def test_the_page_is_that_of_the_committed_records(tmp_path):
    beyond.write(tmp_path / "beyond.md", beyond.RESULTS)
    for path in ("beyond.md", "beyond/decay.svg"):
        assert (beyond.PAGE.parent / path).read_text() == (tmp_path / path).read_text(), "run: python scripts/beyond.py"
