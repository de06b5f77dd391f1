"""Pure moves: collectives that change no bit, whatever the dtype.

A move is known by its pulls: which rank's input becomes which part of the result. A result is parts
one after another, each as large as an input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from worldline.kernels.registry import Request

_QUANTIZED = {torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4}
_ZERO_IS_NEGATIVE_ZEROS_NAN = {torch.float8_e4m3fnuz, torch.float8_e5m2fnuz}
_WITHOUT_NAN = {torch.float4_e2m1fn_x2}


@dataclass(frozen=True)
class Pull:
    """A part of a result.

    Parameters
    ----------
    peer : int
        The rank whose input it is.
    part : int
        Its place in the result.
    """

    peer: int
    part: int


def _all_gather(rank: int, world_size: int) -> tuple[Pull, ...]:
    # In a circle from the next rank on: no two ranks read the same one at a time.
    ranks = [(rank + step) % world_size for step in range(1, world_size + 1)]
    return tuple(Pull(peer, peer) for peer in ranks)


PULLS: dict[str, Callable[[int, int], tuple[Pull, ...]]] = {"all_gather": _all_gather}
"""What a rank of a world pulls, by collective, in order."""


def default_op(collective: str) -> str:
    """Return the op of a call that names none: moves have none."""
    return "" if collective in PULLS else "sum"


def refusal(request: Request) -> str | None:
    """Return None if a move can be made, else the reason why not."""
    if request.op:
        return f"an {request.collective} has no op"
    if request.dtype in _QUANTIZED:
        return "a quantized tensor's scale is no part of its elements"
    return None


def spoilt_byte(dtype: torch.dtype) -> int:
    """Return the byte that fills the output of a move that failed: NaN, or 0 where there is none.

    All ones are a NaN of nearly every float.
    """
    if dtype in _WITHOUT_NAN or not (dtype.is_floating_point or dtype.is_complex):
        return 0
    return 0x80 if dtype in _ZERO_IS_NEGATIVE_ZEROS_NAN else 0xFF
