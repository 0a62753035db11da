"""The sinks that come with evenhand. None uses the network, and each imports its library only when it begins."""

import fcntl
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from evenhand.experiment.spec import Spec

MLFLOW_STATUS = {"done": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
WANDB_EXIT_CODES = {"done": 0, "failed": 1, "stopped": 255}
# Print nothing, and keep only what we log: no machine, no code, no list of packages.
WANDB_QUIET: dict[str, Any] = {
    "silent": True,
    "console": "off",
    "host": "",
    "symlink": False,
    "save_code": False,
    "disable_code": True,
    "disable_git": True,
    "x_disable_machine_info": True,
    "x_save_requirements": False,
}


class TensorBoard:
    """Event files in root/<key>/tensorboard: scalars over the step; spec, facts and state as texts.

    To view them: tensorboard --logdir root.
    """

    def begin(self, folder: Path, spec: Spec, facts: dict[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(_emptied(folder / "tensorboard")))
        self.writer.add_text("key", spec.key)
        self.writer.add_text("spec", _table(spec.model_dump()))
        self.writer.add_text("facts", _table(facts))
        self.writer.flush()

    def record(self, line: dict[str, Any]) -> None:
        for name, value in line["scalars"].items():
            self.writer.add_scalar(name, value, line["step"])
        self.writer.flush()

    def end(self, state: str) -> None:
        self.writer.add_text("state", state)
        self.writer.close()


def _emptied(folder: Path) -> Path:
    """The folder, new and empty."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    return folder


def _table(fields: dict[str, Any]) -> str:
    """Fields as a Markdown table."""
    return "\n".join(["| name | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in fields.items())])


class MLflow:
    """A file store in root/mlflow, one run per key: metrics over the step, the spec as parameters, all else as tags.

    To view it, with the full MLflow package: MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri root/mlflow.
    """

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
        self.run = _cleared_mlflow_run(store / experiment, spec.key)
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
        self.client.set_terminated(self.run, MLFLOW_STATUS[state])


def _cleared_mlflow_run(experiment: Path, key: str) -> str:
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


class WeightsAndBiases:
    """Offline files in root/<key>/wandb, which `wandb sync` can upload.

    History over the step, spec and facts as config, the state in the summary.
    """

    def begin(self, folder: Path, spec: Spec, facts: dict[str, Any]) -> None:
        os.environ["WANDB_ERROR_REPORTING"] = "false"
        os.environ["WANDB_CACHE_DIR"] = str((folder.parent / ".wandb").resolve())  # else it logs to the home directory
        import wandb

        _emptied(folder / "wandb")  # if wandb cannot create it, it falls back to a temporary folder
        hooks = sys.exit, sys.excepthook
        try:
            self.run = wandb.init(
                project="evenhand",
                id=spec.key,  # letters, digits and -.+, all of which wandb accepts
                name=spec.key[-128:],  # the longest name that the server accepts
                dir=str(folder),
                config={**spec.model_dump(), "facts": facts},
                mode="offline",
                reinit="create_new",  # the caller may have a run of its own
                settings=wandb.Settings(**WANDB_QUIET),
            )
        finally:
            sys.exit, sys.excepthook = hooks  # wandb replaces both and never restores them

    def record(self, line: dict[str, Any]) -> None:
        self.run.log(line["scalars"], step=line["step"])

    def end(self, state: str) -> None:
        self.run.summary["state"] = state
        self.run.finish(exit_code=WANDB_EXIT_CODES[state])
