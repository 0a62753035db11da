"""Run folders written by hand: as many as a test needs, in no time."""

import json
import subprocess

from evenhand.experiment.lock import held
from evenhand.experiment.spec import Spec


def spec_of(method="er", **fields):
    return Spec.make(method=method, **{"backbone": "mlp(hidden=8)", "memory": 20, "stages": 3, **fields})


def write(root, spec, state="done", stages=None, accuracy=0.5, name=None, **facts):
    """Write the folder of a run that ends with this accuracy, and loses a tenth of all in every stage."""
    folder = root / (name or spec.key)
    folder.mkdir(parents=True)
    stages = range(spec.stages if stages is None else stages)
    matrix = [[accuracy + 0.1 * (stages[-1] - i)] * (i + 1) for i in stages]
    metrics = [{"stage": i + 1, "arrival": list(range(i + 1)), **stage_of(line)} for i, line in enumerate(matrix)]
    timing = [{"stage": i + 1, "train_seconds": 2.0, "test_seconds": 0.5} for i in stages]
    facts = {"environment": {}, "hardware": {}, "classes": ["a", "b", "c"], **facts}
    (folder / "spec.json").write_text(spec.model_dump_json())
    (folder / "status.json").write_text(json.dumps({"state": state, **facts}))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics))
    (folder / "timing.jsonl").write_text("".join(json.dumps(line) + "\n" for line in timing))
    return folder


def stage_of(accuracy):
    """What a record of a stage must have."""
    return {"accuracy": accuracy, "arrival": [], "head": {}, "probability": []}


def leave_lock(folder):
    """Leave the lock of a process of this machine that is gone."""
    process = subprocess.Popen(["true"])
    process.wait()
    with held(folder / ".lock"):
        owner = json.loads((folder / ".lock").read_text())
    (folder / ".lock").write_text(json.dumps({**owner, "process": process.pid}))
