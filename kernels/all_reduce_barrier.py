"""All-reduce with two barriers: the slow reference kernel.

Every rank stages its input in its own arena; a barrier; every rank reads all staged inputs and
adds them in rank order; a barrier, after which the staging may be overwritten. The two barriers are
what the LL kernels save. Each block meets the same block of its peers, so grids are equal on all
ranks of a launch; the staging's map depends on the item alone.
"""

import triton.language as tl

from worldline.primitives import layout
from worldline.primitives.deadline import lane_alive
from worldline.primitives.jit import ARGUMENTS, kernel
from worldline.primitives.memory_ops import address, agreed
from worldline.primitives.numerics import elements_per_slot, fold, pack, spoilt_word, unpack
from worldline.primitives.overlap import enter_lane, leave_lane
from worldline.primitives.signals import barrier, begin_round, end_round
from worldline.primitives.vectors import load_item, store_item

OPERATION = tl.constexpr(layout.OPERATIONS.index("all_reduce"))


@kernel(do_not_specialize=ARGUMENTS)
def all_reduce_barrier_one_shot(
    source: tl.int64,
    target: tl.int64,
    table: tl.int64,
    count: tl.int64,
    limit_ns: tl.int64,
    scale: tl.int64,
    RANK: tl.constexpr,
    WORLD: tl.constexpr,
    DTYPE: tl.constexpr,
    OP: tl.constexpr,
    WIDE: tl.constexpr,
    STAGED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum ``count`` elements at ``source`` over all ranks into ``target``.

    Parameters are those of :func:`worldline.kernels.all_reduce_ll.all_reduce_ll_one_shot`, but
    for STAGED, the offset of the staged region in bytes. ``count`` is at most what it holds.
    """
    table = address(table).to(tl.pointer_type(tl.int64))
    arena = tl.load(table + RANK)
    block = tl.program_id(0)
    grid = tl.num_programs(0)
    lane = tl.arange(0, BLOCK)
    items = (count + (elements_per_slot(DTYPE) - 1)) // elements_per_slot(DTYPE)
    staged = items * elements_per_slot(DTYPE)
    found = enter_lane(arena, block)
    alive = agreed(lane_alive(arena))
    arrive = begin_round(arena, block)

    for start in range(block * BLOCK, items, grid * BLOCK):
        item = (start + lane).to(tl.int64)
        valid = item < items
        data0, data1 = load_item(source, item, count, valid, DTYPE, WIDE)
        # On a dead lane a late peer may still read what the operation before has staged.
        free = valid & (alive != 0)
        store_item(arena + STAGED, item, data0, data1, staged, free, DTYPE, 1)
    alive = barrier(block, arrive, alive, arena, table, limit_ns, OPERATION, RANK, WORLD)

    for start in range(block * BLOCK, items, grid * BLOCK):
        item = (start + lane).to(tl.int64)
        valid = item < items
        for rank in tl.static_range(WORLD):
            base = tl.load(table + rank) + STAGED
            data0, data1 = load_item(base, item, staged, valid, DTYPE, 1)
            if rank == 0:
                total = unpack(data0, data1, scale, DTYPE, OP)
            else:
                total = fold(total, unpack(data0, data1, scale, DTYPE, OP), OP)
        word0, word1 = pack(total, WORLD, DTYPE, OP)
        word0 = tl.where(alive != 0, word0, spoilt_word(0, DTYPE))
        word1 = tl.where(alive != 0, word1, spoilt_word(1, DTYPE))
        store_item(target, item, word0, word1, count, valid, DTYPE, WIDE)
    alive = barrier(block, arrive + 1, alive, arena, table, limit_ns, OPERATION, RANK, WORLD)
    end_round(arena, block, arrive + 1)
    leave_lane(arena, table, block, found, alive, OPERATION, RANK, WORLD)
