"""The device-side barrier as a collective of its own."""

import triton.language as tl

from worldline.primitives import layout
from worldline.primitives.deadline import lane_alive
from worldline.primitives.jit import kernel
from worldline.primitives.memory_ops import address, agreed
from worldline.primitives.overlap import enter_lane, leave_lane
from worldline.primitives.signals import barrier, begin_round, end_round

OPERATION = tl.constexpr(layout.OPERATIONS.index("barrier"))


@kernel(do_not_specialize=["table", "limit_ns"])
def barrier_signals(table: tl.int64, limit_ns: tl.int64, RANK: tl.constexpr, WORLD: tl.constexpr):
    """Wait until every rank has launched this kernel; one program."""
    table = address(table).to(tl.pointer_type(tl.int64))
    arena = tl.load(table + RANK)
    block = tl.program_id(0)
    found = enter_lane(arena, block)
    value = begin_round(arena, block)
    alive = agreed(lane_alive(arena))
    alive = barrier(block, value, alive, arena, table, limit_ns, OPERATION, RANK, WORLD)
    end_round(arena, block, value)
    leave_lane(arena, table, block, found, alive, OPERATION, RANK, WORLD)
