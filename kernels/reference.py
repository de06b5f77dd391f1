"""References: plain, slow, obviously right; shared by tests and benchmarks.

They work on the list of all ranks' inputs and follow the numeric contract to the bit: rank order,
one accumulator, rank 0's value first, one rounding, one NaN pattern per dtype.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

CANONICAL_NAN = {
    torch.float32: 0x7FFFFFFF,
    torch.float16: 0x7FFF,
    torch.bfloat16: 0x7FFF,
    torch.float64: 0x7FFFFFFFFFFFFFFF,
    torch.float8_e4m3fn: 0x7F,
    torch.float8_e5m2: 0x7F,
}
"""Bits of the one NaN that a reduction gives, by dtype."""

_INTEGER = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(x: torch.Tensor) -> torch.Tensor:
    """View a tensor's elements as integers of their width, for comparisons to the bit."""
    return x.contiguous().view(_INTEGER[x.element_size()])


def all_gather(inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """Gather one tensor a rank.

    Parameters
    ----------
    inputs : sequence of Tensor
        Every rank's input, in rank order; one shape and dtype, whatever it is.

    Returns
    -------
    Tensor
        What every rank's output must be, to the bit; its first dimension is the ranks'.
    """
    parts = torch.cat([x.contiguous().flatten().view(torch.uint8) for x in inputs])
    return parts.view(inputs[0].dtype).view(len(inputs), *inputs[0].shape)


def outputs(
    collective: str,
    inputs: Sequence[torch.Tensor],
    op: str = "",
    root: int = 0,
    scale: float | None = None,
) -> list[torch.Tensor | None]:
    """Say what a collective gives.

    Parameters
    ----------
    collective : str
        Such as ``"reduce_scatter"``.
    inputs : sequence of Tensor
        Every rank's input, in rank order; one shape and dtype.
    op : str
        The reduction, of one that has any.
    root : int
        The root, of one that has any.
    scale : float, optional
        The factor, of a sum.

    Returns
    -------
    list of Tensor or None
        Every rank's output, to the bit and flat; None where it has none.
    """
    ranks = range(len(inputs))
    flat = [x.contiguous().flatten() for x in inputs]
    size = flat[0].numel() // len(inputs)
    parts = [[x[rank * size : (rank + 1) * size] for rank in ranks] for x in flat]
    if collective == "all_gather":
        return [all_gather(flat).flatten()] * len(inputs)
    if collective == "gather":
        return [all_gather(flat).flatten() if rank == root else None for rank in ranks]
    if collective == "broadcast":
        return [flat[root]] * len(inputs)
    if collective == "scatter":
        return [parts[root][rank] for rank in ranks]
    if collective == "all_to_all":
        return [all_gather([part[rank] for part in parts]).flatten() for rank in ranks]
    total = all_reduce(flat, op, scale)
    if collective == "all_reduce":
        return [total] * len(inputs)
    if collective == "reduce":
        return [total if rank == root else None for rank in ranks]
    if collective == "reduce_scatter":
        return [total[rank * size : (rank + 1) * size] for rank in ranks]
    raise ValueError(f"collective={collective!r}: the reference knows none of this name")


def all_reduce(
    inputs: Sequence[torch.Tensor], op: str = "sum", scale: float | None = None
) -> torch.Tensor:
    """Reduce one tensor a rank.

    Parameters
    ----------
    inputs : sequence of Tensor
        Every rank's input, in rank order; one shape, and a dtype of
        :data:`worldline.kernels.numerics.DTYPES`.
    op : str
        ``"sum"``, ``"avg"``, ``"min"``, ``"max"`` or ``"prod"``.
    scale : float, optional
        What each input is multiplied by, rounded, before it is summed.

    Returns
    -------
    Tensor
        What every rank's output must be, to the bit.
    """
    dtype = inputs[0].dtype
    parts = [x.to(_accumulator(dtype)) for x in inputs]
    if scale is not None:
        factor = torch.tensor(scale, dtype=torch.float64).to(parts[0].dtype)
        parts = [part * factor for part in parts]
    total = parts[0]
    for part in parts[1:]:
        total = _FOLDS[op](total, part)
    if op == "avg":
        # By a tensor: by a number torch may multiply by its reciprocal.
        rounding = None if dtype.is_floating_point else "trunc"
        total = torch.div(total, torch.full_like(total, len(inputs)), rounding_mode=rounding)
    rounded = total.to(dtype).contiguous()
    if dtype.is_floating_point:
        nan = torch.isnan(total)
        if dtype == torch.float8_e4m3fn:
            # Without infinity, what rounds to more than 448 has no number. Since version 2.12 torch
            # itself gives 448 there.
            nan |= total.abs() > 464
        bits(rounded)[nan] = CANONICAL_NAN[dtype]
    return rounded


def _accumulator(dtype: torch.dtype) -> torch.dtype:
    """Return in what a reduction of a dtype adds; integers wrap when they are cut to the dtype."""
    if not dtype.is_floating_point:
        return torch.int64
    return torch.float64 if dtype == torch.float64 else torch.float32


def _add(total: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
    return total + more


def _smaller(total: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
    return torch.where((more < total) | torch.isnan(more), more, total)


def _greater(total: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
    return torch.where((more > total) | torch.isnan(more), more, total)


def _multiply(total: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
    return total * more


_FOLDS = {"sum": _add, "avg": _add, "min": _smaller, "max": _greater, "prod": _multiply}
