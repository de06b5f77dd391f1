"""The device-side barrier as a collective of its own."""

import triton.language as tl

from worldline.primitives import layout
from worldline.primitives.deadline import lane_alive
from worldline.primitives.jit import kernel
from worldline.primitives.memory_ops import address, agreed
from worldline.primitives.signals import barrier, begin_round, end_round

OPERATION = tl.constexpr(layout.OPERATIONS.index("barrier"))


@kernel(do_not_specialize=["limit_ns"])
def barrier_signals(table: tl.int64, limit_ns: tl.int64, RANK: tl.constexpr, WORLD: tl.constexpr):
    """Wait until every rank has launched this kernel; one program."""
    table = address(table).to(tl.pointer_type(tl.int64))
    arena = tl.load(table + RANK)
    block = tl.program_id(0)
    value = begin_round(arena, block)
    alive = agreed(lane_alive(arena))
    barrier(block, value, alive, arena, table, limit_ns, OPERATION, RANK, WORLD)
    end_round(arena, block, value)
