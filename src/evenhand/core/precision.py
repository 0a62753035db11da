"""Precision: the trunk computes in float32, or in bfloat16, which some hardware multiplies faster.

Head, losses, optimizer, memory, batch statistics and everything that is stored stay in float32.
"""

import warnings
from contextlib import AbstractContextManager, nullcontext

import torch


def native(device: torch.device) -> bool:
    """Whether the hardware multiplies bfloat16 natively: AVX-512 with bf16 or AMX, or a GPU that has it."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return False


def chosen(precision: str, device: torch.device) -> str:
    """Return "fp32" or "bf16"; "auto" chooses bf16 where it is native. Warns where bf16 will be slow."""
    if precision == "auto":
        return "bf16" if native(device) else "fp32"
    if precision == "bf16" and not native(device):
        warnings.warn("This hardware emulates bf16: it will be slower than fp32.", stacklevel=3)
    return precision


def computing(precision: str, device: torch.device) -> AbstractContextManager[None]:
    """A context in which convolutions and matrix products have this precision."""
    if precision == "bf16":
        # Within a caller's autocast, cached casts of the weights would outlive the next update.
        return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)
    return nullcontext()


def undisturbed(device: torch.device) -> AbstractContextManager[None]:
    """A context without the caller's autocast, if there is one."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()
