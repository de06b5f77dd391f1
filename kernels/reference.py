"""References: plain, slow, obviously right; shared by tests and benchmarks.

They work on the list of all ranks' inputs and follow the numeric contract to the bit: rank order,
float32 accumulator, rank 0's value first, one rounding, one NaN pattern per dtype.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

CANONICAL_NAN = {torch.float32: 0x7FFFFFFF, torch.float16: 0x7FFF, torch.bfloat16: 0x7FFF}
"""Bits of the one NaN that a sum gives, by dtype."""

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
    collective: str, inputs: Sequence[torch.Tensor], op: str = "", root: int = 0
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
    total = all_reduce(flat, op)
    if collective == "all_reduce":
        return [total] * len(inputs)
    if collective == "reduce":
        return [total if rank == root else None for rank in ranks]
    if collective == "reduce_scatter":
        return [total[rank * size : (rank + 1) * size] for rank in ranks]
    raise ValueError(f"collective={collective!r}: the reference knows none of this name")


def all_reduce(inputs: Sequence[torch.Tensor], op: str = "sum") -> torch.Tensor:
    """Reduce one tensor a rank.

    Parameters
    ----------
    inputs : sequence of Tensor
        Every rank's input, in rank order; one shape, dtype float32, float16 or bfloat16.
    op : str
        ``"sum"``.

    Returns
    -------
    Tensor
        What every rank's output must be, to the bit.
    """
    if op != "sum":
        raise ValueError(f"op={op!r}: the reference knows 'sum'")
    total = inputs[0].float()
    for x in inputs[1:]:
        total = total + x.float()
    rounded = total.to(inputs[0].dtype).contiguous()
    nan = torch.isnan(total)
    if nan.any():
        bits(rounded)[nan] = CANONICAL_NAN[rounded.dtype]
    return rounded
