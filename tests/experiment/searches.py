"""Searches for the tests: small ones, and engines that run them, make up results, or write records alone."""

import copy

from evenhand.datasets import load
from evenhand.experiment.engine.queue import Failure, RunOptions, attempt
from evenhand.experiment.result import Result
from evenhand.experiment.search.axis import Axis
from evenhand.experiment.search.tune import Tuning

FIELDS = {"backbone": "mlp(hidden=8)", "memory": 20, "batch": 50}


def tuning_of(method, *axes, **fields):
    seeds, preset = fields.pop("seeds", 1), fields.pop("preset", None)
    made = [Axis.parse(text) for text in axes]
    return Tuning(method, made, {**besides([axis.name for axis in made]), **fields}, seeds=seeds, preset=preset)


def besides(searched):
    """The fields that are given, but for those that are searched for."""
    return {name: value for name, value in FIELDS.items() if name not in searched}


def made_up(accuracy):
    """An engine that runs nothing: each result has the accuracy that a function of its spec says."""

    def engine(specs, until):
        assert until is None
        made_up.asked += specs
        return [Result(spec, spec.key, [{"accuracy": [accuracy(spec)]}], (), 1.0, {}) for spec in specs]

    made_up.asked = []
    return engine


def real(root, stop=lambda: False):
    """The engine itself, one run after the other; it counts what it was asked for."""

    def engine(specs, until):
        engine.asked += [(spec, until) for spec in specs]
        outcomes = []
        for spec in specs:
            outcomes.append(attempt(spec, root, RunOptions(until=until), lambda _: None, stop))
            if isinstance(outcomes[-1], Failure) and outcomes[-1].cause == "stopped":
                break
        return outcomes

    engine.asked = []
    return engine


def stages_of(root):
    return sum(len((folder / "metrics.jsonl").read_text().splitlines()) for folder in root.iterdir())


def records(root):
    return {path.parent.name: path.read_bytes() for path in root.glob("*/metrics.jsonl")}


def sealed(monkeypatch):
    """Let runs have data whose test images and labels nobody may look at."""
    touched = []

    class Sealed:
        def __getattribute__(self, name):
            touched.append(name)
            raise AssertionError("a test sample was touched")

        def __getitem__(self, rows):
            return self.anything

        def __len__(self):
            return self.anything

    data = copy.copy(load("fashion-cut"))
    object.__setattr__(data, "test_x", Sealed())
    object.__setattr__(data, "test_y", Sealed())
    monkeypatch.setattr("evenhand.experiment.run.load", lambda *_, **__: data)
    return touched
