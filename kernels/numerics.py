"""What can be reduced and how: dtypes and operations, with the codes that kernels know them by."""

from __future__ import annotations

import torch

DTYPES = {
    torch.float32: 0,
    torch.float16: 1,
    torch.bfloat16: 2,
    torch.float64: 3,
    torch.float8_e4m3fn: 4,
    torch.float8_e5m2: 5,
    torch.int8: 6,
    torch.uint8: 7,
    torch.int32: 8,
    torch.int64: 9,
}
"""Dtypes that can be reduced, and their codes in :mod:`worldline.primitives.numerics`."""
COMMON = (torch.float32, torch.float16, torch.bfloat16)
"""Those whose sums a world has ready unless it declares others, and that peers can add to."""
OPS = {"sum": 0, "avg": 1, "min": 2, "max": 3, "prod": 4}
"""Operations that can be asked for, and their codes there."""
SCALED_SUM = "scaled sum"
"""A sum whose inputs are multiplied first."""
OP_CODES = {**OPS, SCALED_SUM: 5}
"""All that a kernel can do, and its code."""
