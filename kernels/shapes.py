"""Which blocks are worth trying for a row and a request, and how many of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worldline.primitives.layout import MAX_BLOCKS

if TYPE_CHECKING:
    from worldline.kernels.registry import Algorithm, Request

_WAVE = 3 * 132
"""Blocks of the two-shot sentinel of two ranks that an H100 or an H200 holds at once."""


def grid(row: Algorithm, request: Request, items: int, block: int) -> int:
    """Return the default number of such blocks for so many items, at most."""
    most = MAX_BLOCKS
    if row.protocol.channel and (row.shots, request.world_size) == (2, 2):
        # Of several passes, blocks that find room after others' end leave the link idle: between
        # two H200s 192.0 us for 64 MB, 194.5 with a second wave.
        passes = items > most * block * row.batches(2)[-1]
        most = _WAVE if passes and row.backend == "cuda" else most
    return min(most, -(-items // block))


def blocks(row: Algorithm, request: Request, items: int) -> tuple[int, ...]:
    """List the blocks of a launch on so many items, the default first."""
    if request.device_type == "cpu":
        # The interpreter's cost is one of operations, not of elements: one program if it fits.
        fitting = max(16, 1 << (items - 1).bit_length())
        return (min(8192, fitting, row.widest(request.world_size)),)
    if row.backend == "triton":
        # More would not stay in the registers of its 128 threads, and half as much of many
        # ranks' data where a pass keeps what it has worked out for every peer.
        most = 2048 if row.protocol.channel and request.world_size > 4 else 4096
        return tuple(block for block in (128, 256, 512) if block * row.protocol.item <= most)
    if row.protocol.channel:
        # Of many items wide blocks first: there are not channels for many, and of many ranks a
        # channel may hold narrow ones only.
        return (256, 128, 64, 32) if items > 128 * 128 else (128, 256, 64, 32)
    if row.protocol.lanes > 1 and items > 256 * 128:
        return (256, 512, 128, 64)
    # From 1 to 64 KB on two H200s, 128 threads are the best of a CUDA kernel's, by up to 3 %.
    return (128, 256, 64, 512)
