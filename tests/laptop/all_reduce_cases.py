"""Inputs and checks that the all-reduce tests share; everything is compared to the bit."""

from __future__ import annotations

import torch

from worldline.kernels import reference
from worldline.kernels.numerics import DTYPES
from worldline.kernels.registry import dtype_name

DTYPE_NAMES = tuple(dtype_name(dtype) for dtype in DTYPES)

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def random_input(seed: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Numbers of very different size, so that the order of a sum shows in its bits."""
    generator = torch.Generator().manual_seed(seed)
    if not dtype.is_floating_point:
        words = torch.randint(-(2**62), 2**62, (count,), generator=generator)
        return (words >> torch.randint(0, 62, (count,), generator=generator)).to(dtype)
    scale = torch.pow(2.0, torch.randint(-8, 9, (count,), generator=generator).float())
    return (torch.randn(count, generator=generator) * scale).to(dtype)


def random_bits(seed: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Any bit pattern: NaN of every payload, infinities, subnormals, both zeros, extremes."""
    generator = torch.Generator().manual_seed(seed)
    width = dtype.itemsize * 8
    least, most = -(2 ** (width - 1)), 2 ** (width - 1) - 1
    words = torch.randint(least, most, (count,), generator=generator)
    special = {
        8: (0, -0x80, 0x7C, 0x7D, 0x7E, 0x7F, -1, 1, -0x7F, 0x03, -0x04),
        16: (0x0000, -0x8000, 0x7C00, 0x7F80, 0x7F81, 0x7FC0, 0x7FFF, -1, 0x0001, -0x7FFF),
        32: (0, -(2**31), 0x7F800000, -0x800000, 0x7FC00000, 0x7F800001, -1, 1, 0x007FFFFF),
        64: (0, least, most, 0x7FF << 52, -1 << 52, 0x7FF8 << 48, (0x7FF << 52) + 1, -1, 1),
    }[width]
    for index, word in enumerate(special * 8):
        if index < count:
            words[(index * 7 + seed) % count] = word
    # Runs of ones of every alignment look like empty sentinel slots, the last up to the end.
    for start, length in ((seed % 16 + 40 * i, 2 + i % 8) for i in range(count // 80)):
        words[start : start + length] = -1
    if count > 3:
        words[count - seed % 4 :] = -1
    return words.to(_INTEGERS[dtype.itemsize]).view(dtype)


def same_bits(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Say whether two tensors agree to the bit."""
    return torch.equal(reference.bits(x), reference.bits(y))
