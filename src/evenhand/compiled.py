"""A compiled trunk: the same arithmetic in fewer passes over memory, by torch.compile."""

import os
import shutil
from pathlib import Path

import torch
from torch import Tensor, nn

WORTH = 2000  # steps that pay for the minute of compiling


class Compiled:
    """A trunk that is compiled when it is first used, for the shape of that first input.

    The graph is static, so that a run that is resumed uses the same kernels. What was compiled is kept on disk, and the
    next run with the same network need not wait.
    """

    def __init__(self, trunk: nn.Module) -> None:
        # Beside the other caches, so that it outlives a reboot.
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evenhand" / "compiled"
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache))
        self.trunk = trunk
        mode = "reduce-overhead" if torch.cuda.is_available() else None  # CUDA graphs
        self._run = torch.compile(trunk, dynamic=False, mode=mode)

    def __call__(self, x: Tensor) -> Tensor:
        """Map inputs (n, ...) to features (n, dim)."""
        return self._run(x)


def worth(trunk: nn.Module, steps: int) -> bool:
    """Whether compiling pays: a network of convolutions, a long run, and a compiler to do it with.

    With a single thread it gains nothing: there the convolutions, which stay as they are, are nearly all of the time.
    """
    convolutions = any(isinstance(module, nn.Conv2d) for module in trunk.modules())
    several = torch.get_num_threads() > 1 or torch.cuda.is_available()
    return convolutions and several and steps >= WORTH and shutil.which(os.environ.get("CXX", "g++")) is not None
