"""Sizes and dtypes as people type and read them."""

from __future__ import annotations

import torch

from worldline.primitives.errors import InvalidArgument

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SHORT = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def parse_size(text: str, argument: str = "size") -> int:
    """Turn ``"64K"`` into bytes; K, M and G are powers of 1024.

    Parameters
    ----------
    text : str
        What was typed.
    argument : str
        Its name, for errors.

    Raises
    ------
    InvalidArgument
        For anything else than a whole number of at least 1 and a unit.
    """
    plain = text.strip().upper().removesuffix("IB").removesuffix("B")
    unit = plain[-1:] if plain[-1:] in ("K", "M", "G") else ""
    digits = plain.removesuffix(unit) if unit else plain
    # Eighteen digits are more than any memory's bytes.
    if not digits.isdecimal() or len(digits) > 18 or int(digits) < 1:
        rule = "must be a whole number >= 1, of 18 digits at most, with K, M, G or no unit"
        raise InvalidArgument(argument, text, rule)
    return int(digits) * _UNITS[unit]


def show_size(nbytes: int) -> str:
    """Turn bytes into ``"64 KB"``, exactly where that is short."""
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if nbytes >= factor and nbytes % factor == 0:
            return f"{nbytes // factor} {unit}"
    return f"{nbytes} B"


def parse_dtype(text: str) -> torch.dtype:
    """Turn ``"bf16"`` or ``"bfloat16"`` into a dtype.

    Raises
    ------
    InvalidArgument
        For a name that torch does not have.
    """
    dtype = getattr(torch, _SHORT.get(text, text), None)
    if not isinstance(dtype, torch.dtype):
        raise InvalidArgument("dtype", text, "must be the name of a torch dtype, or f32, f16, bf16")
    return dtype
