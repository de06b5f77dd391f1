"""The device-side barrier, as a collective of its own and between the copies of a pure move."""

import triton.language as tl

from worldline.primitives import layout
from worldline.primitives.deadline import lane_alive
from worldline.primitives.jit import device_function, kernel
from worldline.primitives.memory_ops import address, agreed
from worldline.primitives.overlap import enter_lane, leave_lane
from worldline.primitives.signals import barrier, begin_round, end_round

BEGINS = tl.constexpr(layout.BEGINS)
ENDS = tl.constexpr(layout.ENDS)
WIDTH = tl.constexpr(1024)


@kernel(do_not_specialize=["table", "target", "nbytes", "spoilt", "operation", "mark", "limit_ns"])
def barrier_signals(
    table: tl.int64,
    target: tl.int64,
    nbytes: tl.int64,
    spoilt: tl.int64,
    operation: tl.int32,
    mark: tl.int32,
    limit_ns: tl.int64,
    RANK: tl.constexpr,
    WORLD: tl.constexpr,
):
    """Wait until every rank has launched this kernel; one program.

    On a dead lane, and after a wait in vain, it spoils an output: no bytes that a peer may have
    been writing meanwhile stay there.

    Parameters
    ----------
    table, limit_ns
        As of every collective's kernel.
    target, nbytes : int64
        The output, and its bytes; 0 where this is not the operation's end.
    spoilt : int64
        Eight equal bytes, what the output is then filled with.
    operation : int32
        Index into ``layout.OPERATIONS``, for the record.
    mark : int32
        Whether the operation begins here, ends here, or both: the sum of ``layout.BEGINS`` and
        ``layout.ENDS``. In between the lane stays marked as busy.
    """
    table = address(table).to(tl.pointer_type(tl.int64))
    arena = tl.load(table + RANK)
    block = tl.program_id(0)
    found = block * 0
    if (mark & BEGINS) != 0:
        found = enter_lane(arena, block)
    value = begin_round(arena, block)
    alive = agreed(lane_alive(arena))
    alive = barrier(block, value, alive, arena, table, limit_ns, operation, RANK, WORLD)
    if alive == 0:
        fill(address(target), address(nbytes), address(spoilt))
    end_round(arena, block, value)
    stays = ((mark & ENDS) == 0).to(tl.int32)
    leave_lane(arena, table, block, found, alive, operation, RANK, WORLD, stays)


@device_function
def fill(target, nbytes, value):
    """Fill bytes at any address with those of ``value``, eight equal ones; int64 scalars."""
    lane = tl.arange(0, WIDTH)
    first = (target + 7) & -8
    words = (target + nbytes - first) // 8
    for start in range(0, words, WIDTH):
        word = start + lane.to(tl.int64)
        tl.store((first + word * 8).to(tl.pointer_type(tl.int64)), value, mask=word < words)
    # What is left lies before the first whole word and behind the last.
    edge = tl.arange(0, 16).to(tl.int64)
    place = tl.where(edge < 8, edge, nbytes - 16 + edge)
    inside = (place >= 0) & (place < nbytes)
    tl.store((target + place).to(tl.pointer_type(tl.int8)), value.to(tl.int8), mask=inside)
