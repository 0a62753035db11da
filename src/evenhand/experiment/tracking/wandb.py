"""Weights & Biases, offline: files in root/<key>/wandb, which `wandb sync` uploads if and when somebody wants it."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from evenhand.experiment.spec import Spec

# Nothing is printed, and nothing but what we log is kept: no machine, no code, no list of packages.
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
    """History over the step, the spec's fields and the facts as config, the state in the summary."""

    def begin(self, folder: Path, spec: Spec, facts: dict[str, Any]) -> None:
        os.environ["WANDB_ERROR_REPORTING"] = "false"
        os.environ["WANDB_CACHE_DIR"] = str((folder.parent / ".wandb").resolve())  # else it logs to the home
        import wandb

        place = folder / "wandb"
        if place.exists():
            shutil.rmtree(place)
        place.mkdir()  # where it cannot make its folder itself, wandb goes to that of temporary files
        hooks = sys.exit, sys.excepthook
        try:
            self.run = wandb.init(
                project="evenhand",
                id=spec.key,  # of letters, digits and -.+ alone, all of which it takes
                name=spec.key[-128:],  # its server takes no longer one
                dir=str(folder),
                config={**spec.model_dump(), "facts": facts},
                mode="offline",
                reinit="create_new",  # whoever calls us may have a run of their own
                settings=wandb.Settings(**QUIET),
            )
        finally:
            sys.exit, sys.excepthook = hooks  # it puts its own there, and never takes them away

    def record(self, line: dict[str, Any]) -> None:
        self.run.log(line["scalars"], step=line["step"])

    def end(self, state: str) -> None:
        self.run.summary["state"] = state
        self.run.finish(exit_code=EXIT_CODES.get(state, 1))
