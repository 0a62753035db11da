"""FLOPs: the cost of a step, independent of the clock."""

from collections.abc import Callable

from torch.utils.flop_counter import FlopCounterMode


def count_flops(step: Callable[[], object]) -> int:
    """Floating-point operations of one call, as torch counts them."""
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()
