"""Weights & Biases, offline: files in root/<key>/wandb, which `wandb sync` can upload."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from evenhand.experiment.spec import Spec

# Print nothing, and keep only what we log: no machine, no code, no list of packages.
QUIET: dict[str, Any] = {
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
EXIT_CODES = {"done": 0, "failed": 1, "stopped": 255}


class WeightsAndBiases:
    """History over the step, spec and facts as config, the state in the summary."""

    def begin(self, folder: Path, spec: Spec, facts: dict[str, Any]) -> None:
        os.environ["WANDB_ERROR_REPORTING"] = "false"
        os.environ["WANDB_CACHE_DIR"] = str((folder.parent / ".wandb").resolve())  # else it logs to the home directory
        import wandb

        logs = folder / "wandb"
        if logs.exists():
            shutil.rmtree(logs)
        logs.mkdir()  # if wandb cannot create it, it falls back to a temporary folder
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
                settings=wandb.Settings(**QUIET),
            )
        finally:
            sys.exit, sys.excepthook = hooks  # wandb replaces both and never restores them

    def record(self, line: dict[str, Any]) -> None:
        self.run.log(line["scalars"], step=line["step"])

    def end(self, state: str) -> None:
        self.run.summary["state"] = state
        self.run.finish(exit_code=EXIT_CODES.get(state, 1))
