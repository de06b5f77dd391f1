"""Overlap: two operations of one lane must not run at once; here a device finds that they did.

Operations of a lane follow each other, by one stream, by events or by a graph. Nothing makes a
caller keep to that, and two that overlap read the same epoch and mix their slots. So each block
marks its *busy* word when it enters and clears it when it leaves. The mark is exchanged, not
tested: of two operations that enter block b at once, one finds the other's.

Off the critical path: one thread exchanges the word, in LL kernels between sending and receiving;
nobody waits for what it found before the outputs are written, and leaving is a plain store.

What it finds kills the lane, as a timeout does, with a mark of its own in the control page.
"""

import triton.language as tl

from worldline.primitives import layout
from worldline.primitives.deadline import give_notice, kill_lane
from worldline.primitives.jit import device_function
from worldline.primitives.memory_ops import agreed, exchange_once

BUSY = tl.constexpr(layout.BUSY)
OVERLAPPED = tl.constexpr(layout.OVERLAPPED)


@device_function
def enter_lane(arena, block):
    """Mark the block busy; returns 1, on one thread, if an operation is running there, else 0."""
    return exchange_once(arena + BUSY + block.to(tl.int64) * 4, block * 0 + 1)


@device_function
def leave_lane(
    arena, table, block, found, alive, operation, RANK: tl.constexpr, WORLD: tl.constexpr, stays=0
):
    """Clear the mark; kill the lane if another operation's was found; tell the host of the dead.

    Parameters
    ----------
    arena, table : int64, pointer to int64
        The own base and all bases.
    block : int32
        The program's index in the grid.
    found : int32
        What :func:`enter_lane` returned.
    alive : int32
        0 if the lane was dead at entry or a wait failed.
    operation : int32
        Index into ``layout.OPERATIONS``, for the error.
    stays : int32
        1 where the operation goes on after this kernel: the mark stays.
    """
    verdict = agreed(tl.where(found != 0, 2, (alive == 0).to(tl.int32)))
    tl.store((arena + BUSY).to(tl.pointer_type(tl.int32)) + block, block * 0 + stays)
    if verdict != 0:
        if verdict == 2:
            zero = (block * 0).to(tl.int64)
            tl.store((arena + OVERLAPPED).to(tl.pointer_type(tl.int64)), zero + operation + 1)
            kill_lane(table, zero, RANK, WORLD)
        give_notice(table, WORLD)
