"""Run a registry row on a lane: chunks, widths and constants of the launch."""

from __future__ import annotations

import torch

from worldline.kernels.registry import DTYPES, Algorithm, Launch, Request
from worldline.primitives.lane import Lane
from worldline.primitives.layout import SLOT, THREADS, ArenaLayout

ITEM = SLOT // 2
COMPILE = {"num_warps": THREADS // 32, "maxnreg": 168}
"""Triton's options for every kernel: left to itself ptxas keeps to 32 registers and may spill."""


def chunk_elements(algorithm: Algorithm, request: Request, layout: ArenaLayout) -> int:
    """Elements that one launch takes; depends only on what is equal on all ranks."""
    return algorithm.capacity(layout) // ITEM * request.per_slot


def run(
    algorithm: Algorithm,
    request: Request,
    lane: Lane,
    source: torch.Tensor,
    target: torch.Tensor,
    shape: Launch,
) -> None:
    """Reduce ``source`` into ``target``, both contiguous, in as many launches as the arena asks.

    Parameters
    ----------
    algorithm, request, lane, shape
        What to run, for what, where and how; equal on all ranks.
    source, target : Tensor
        ``request.count`` elements each; may be the same memory.
    """
    kernel = algorithm.load()
    layout = lane.arena.layout
    size = request.dtype.itemsize
    step = chunk_elements(algorithm, request, layout)
    for start in range(0, request.count, step):
        count = min(step, request.count - start)
        read, write = source.data_ptr() + start * size, target.data_ptr() + start * size
        items = algorithm.items(-(-count // request.per_slot), lane.size)
        wide = (read | write) % ITEM == 0 and count % request.per_slot == 0
        # Fewer programs where there are fewer items is a condition of safety: each program must
        # exchange a slot with every peer, and one without items would not.
        lane.provider.launch(
            kernel,
            min(shape.grid, -(-items // shape.block)),
            (read, write, lane.arena.table, count, lane.limit_ns),
            RANK=lane.rank,
            WORLD=lane.size,
            DTYPE=DTYPES[request.dtype],
            WIDE=int(wide),
            BLOCK=shape.block,
            **COMPILE,
            **algorithm.constants(layout),
        )


def run_barrier(lane: Lane) -> None:
    """Run the device-side barrier."""
    from worldline.kernels.barrier import barrier_signals

    lane.provider.launch(
        barrier_signals,
        1,
        (lane.arena.table, lane.limit_ns),
        RANK=lane.rank,
        WORLD=lane.size,
        **COMPILE,
    )
