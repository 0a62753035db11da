"""Runs of the paper made by hand: results, and the folders that hold them."""

import json

from evenhand.experiment.result import Result
from evenhand.experiment.spec import Spec

PER_STAGE = 2


def spec_of(method="er", **fields):
    return Spec.make(method=method, **{"data": "cifar100", "stages": 3, **fields})


def records(spec, previous=0.2, current=0.4, tilt=0.5):
    """Lines of metrics.jsonl; `tilt` is what the classes of the last stage have more of in the head."""
    lines = []
    for stage in range(1, spec.stages + 1):
        count = stage * PER_STAGE
        new = [float(place >= count - PER_STAGE) for place in range(count)]
        head = {"norm": [1 + tilt * n for n in new], "bias": [tilt * (2 * n - 1) for n in new]}
        head |= {name: [0.01 * place for place in range(count)] for name in ("mean", "weight_change", "bias_change")}
        accuracy = [previous] * (stage - 1) + [current]
        line = {"stage": stage, "arrival": list(range(count)), "accuracy": accuracy, "head": head}
        lines.append({**line, "probability": [1 / count] * count})
    return lines


def result(spec, previous=0.2, current=0.4, tilt=0.5):
    lines = records(spec, previous, current, tilt)
    names = tuple(f"class {place}" for place in range(spec.stages * PER_STAGE))
    return Result(spec, spec.key, lines, names, 60.0, {})


def write(root, spec, previous=0.2, current=0.4, tilt=0.5, otherwise=None):
    """The folder of a finished run; `otherwise` has the accuracies of a last test with the other logits."""
    folder = root / spec.key
    folder.mkdir(parents=True)
    made = result(spec, previous, current, tilt)
    timing = [{"stage": line["stage"], "train_seconds": 20.0, "test_seconds": 1.0} for line in made.records]
    status = {"state": "done", "environment": {"torch": "2"}, "hardware": {}, "classes": made.classes}
    for line in made.records if otherwise else ():
        line["otherwise"] = {"accuracy": otherwise[: line["stage"]], "probability": line["probability"]}
    (folder / "spec.json").write_text(spec.model_dump_json())
    (folder / "status.json").write_text(json.dumps(status))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in made.records))
    (folder / "timing.jsonl").write_text("".join(json.dumps(line) + "\n" for line in timing))
    return folder
