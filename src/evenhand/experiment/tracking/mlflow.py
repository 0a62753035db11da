"""MLflow: a file store in root/mlflow, one run per key.

To view it, with the full MLflow package: MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri root/mlflow.
"""

import fcntl
import os
import shutil
import time
from pathlib import Path
from typing import Any

from evenhand.experiment.spec import Spec

STATUS = {"done": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}


class MLflow:
    """Metrics over the step, fields of the spec as parameters; key, state and facts as tags."""

    def begin(self, folder: Path, spec: Spec, facts: dict[str, Any]) -> None:
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
        os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # a database would need more than mlflow-skinny
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        store = (folder.parent / "mlflow").resolve()
        store.mkdir(exist_ok=True)
        with (store / ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # else two processes that begin at once create the experiment twice
            self.client = MlflowClient(tracking_uri=store.as_uri())
            existing = self.client.get_experiment_by_name("evenhand")
            experiment = existing.experiment_id if existing else self.client.create_experiment("evenhand")
        self.run = _cleared_run(store / experiment, spec.key)
        if not self.run:
            self.run = self.client.create_run(experiment, run_name=spec.key, tags={"key": spec.key}).info.run_id
        self.client.update_run(self.run, status="RUNNING")
        for name, value in {"state": "running", **facts}.items():
            self.client.set_tag(self.run, name, value)
        self.client.log_batch(self.run, params=[Param(name, str(value)) for name, value in spec.model_dump().items()])

    def record(self, line: dict[str, Any]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        # The store keeps each metric in a file of its name, and the file accuracy cannot also be a folder.
        points = {name.replace("/", "_"): value for name, value in line["scalars"].items()}
        self.client.log_batch(self.run, [Metric(name, value, now, line["step"]) for name, value in points.items()])

    def end(self, state: str) -> None:
        self.client.set_tag(self.run, "state", state)
        self.client.set_terminated(self.run, STATUS.get(state, "FAILED"))


def _cleared_run(experiment: Path, key: str) -> str:
    """Id of the run of this key, after removing its metrics and parameters; '' if there is none.

    MLflow can only append, and its search reads all runs, even those that other processes are writing. So this works
    on the files themselves.
    """
    for tag in experiment.glob("*/tags/key"):
        if tag.read_text() == key:
            for name in ("metrics", "params"):
                shutil.rmtree(tag.parents[1] / name, ignore_errors=True)
                (tag.parents[1] / name).mkdir()
            return tag.parents[1].name
    return ""
