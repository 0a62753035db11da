"""TensorBoard: event files in root/<key>/tensorboard. To look at them: tensorboard --logdir root."""

import shutil
from pathlib import Path
from typing import Any

from evenhand.experiment.spec import Spec


class TensorBoard:
    """Scalars over the step, and the spec, the facts and the state as texts."""

    def begin(self, folder: Path, spec: Spec, facts: dict[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        place = folder / "tensorboard"
        if place.exists():
            shutil.rmtree(place)
        self.writer = SummaryWriter(str(place))
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
    """Fields as the Markdown that the page shows."""
    return "\n".join(["| name | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in fields.items())])
