"""A compiled trunk: the same arithmetic in fewer passes over memory, with torch.compile."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from evenhand.core.batch import Batch

if TYPE_CHECKING:
    from evenhand.core.learner import Learner

WORTH = 2000  # steps after which the minute of compiling pays off


class Compiled:
    """A trunk that is compiled at its first use, for the shape of that input.

    The graph is static, so that a resumed run uses the same kernels. They are cached on disk, so the next run with the
    same network need not wait.
    """

    def __init__(self, trunk: nn.Module) -> None:
        # With evenhand's other caches, so that it survives a reboot.
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evenhand" / "compiled"
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache))
        self.trunk = trunk
        mode = "reduce-overhead" if torch.cuda.is_available() else None  # CUDA graphs
        self._run = torch.compile(trunk, dynamic=False, mode=mode)

    def __call__(self, *inputs: Tensor, **named: Tensor) -> Any:
        """What the trunk returns for inputs (n, ...)."""
        return self._run(*inputs, **named)

    def serves(self, learner: "Learner", batches: Sequence[Batch | None]) -> bool:
        """Whether this joint pass uses this trunk and has the shape to compile for: a batch with its full replay.

        A replay may be short until the memory has filled up; a scratch copy of the network has another trunk.
        """
        memory = learner.memory
        filled = len(memory) >= min(memory.size, 10 * learner.replay)
        return filled and all(batches) and learner.network.trunk is self.trunk


def worth(trunk: nn.Module, steps: int) -> bool:
    """Whether compiling pays off: it takes a convolutional network, a long run and a C++ compiler.

    With a single thread it gains nothing: the convolutions, which compiling leaves alone, take nearly all the time.
    """
    convolutions = any(isinstance(module, nn.Conv2d) for module in trunk.modules())
    several = torch.get_num_threads() > 1 or torch.cuda.is_available()
    return convolutions and several and steps >= WORTH and shutil.which(os.environ.get("CXX", "g++")) is not None
