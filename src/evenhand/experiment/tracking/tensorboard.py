"""TensorBoard: event files in root/<key>/tensorboard. To view them: tensorboard --logdir root."""

import shutil
from pathlib import Path
from typing import Any

from evenhand.experiment.spec import Spec


class TensorBoard:
    """Scalars over the step; spec, facts and state as texts."""

    def begin(self, folder: Path, spec: Spec, facts: dict[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        logs = folder / "tensorboard"
        if logs.exists():
            shutil.rmtree(logs)
        self.writer = SummaryWriter(str(logs))
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


def _table(fields: dict[str, Any]) -> str:
    """Fields as a Markdown table."""
    return "\n".join(["| name | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in fields.items())])
