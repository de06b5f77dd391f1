"""Collectives of parts over LL slots, in Triton: every rank sends each peer a part and takes one.

One kernel for all of :mod:`worldline.kernels.parts`: what a rank takes is put side by side, byte
for byte, or added up in rank order. An item, 8 bytes of a part, has a slot of its own; the map is
the one-shot's of :mod:`worldline.kernels.all_reduce_ll`.

In place: a program reads its items of every part before it writes the same items of any.
"""

import triton.language as tl

from worldline.primitives import layout
from worldline.primitives.deadline import lane_alive
from worldline.primitives.epochs import advance_epoch, begin_epoch, clear_before_wrap
from worldline.primitives.jit import ARGUMENTS, kernel
from worldline.primitives.ll import ll_recv, ll_send
from worldline.primitives.memory_ops import address
from worldline.primitives.numerics import UINT8, fold, pack, spoilt_word, unpack
from worldline.primitives.overlap import enter_lane, leave_lane
from worldline.primitives.vectors import load_item, store_item

LL = tl.constexpr(layout.LL)
SLOT = tl.constexpr(layout.SLOT)
ITEM = tl.constexpr(layout.ITEM)
PARTS_ARGUMENTS = [*ARGUMENTS, "send_step", "take_step", "operation", "spoilt", "gives", "takes"]


@kernel(do_not_specialize=PARTS_ARGUMENTS)
def parts_ll(
    source: tl.int64,
    target: tl.int64,
    table: tl.int64,
    count: tl.int64,
    limit_ns: tl.int64,
    scale: tl.int64,
    send_step: tl.int64,
    take_step: tl.int64,
    operation: tl.int64,
    spoilt: tl.int64,
    gives: tl.int64,
    takes: tl.int64,
    RANK: tl.constexpr,
    WORLD: tl.constexpr,
    REDUCES: tl.constexpr,
    DTYPE: tl.constexpr,
    OP: tl.constexpr,
    WIDE: tl.constexpr,
    HALF: tl.constexpr,
    SLOTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Send ``count`` bytes to peers and take as many from peers.

    Parameters
    ----------
    source, target : int64
        Addresses of the first part of the input and of the output.
    table : int64
        Address of the int64 bases of all arenas, as this rank sees them, and of the notice.
    count : int
        Bytes of a part, at least 1, of which SLOTS / 16 / WORLD slots hold the items.
    limit_ns : int64
        The deadline of each wait.
    scale : int64
        As of the all-reduce.
    send_step, take_step : int64
        Bytes from one rank's part to the next one's, of the input and of the output.
    operation : int64
        Index into ``layout.OPERATIONS``, for the record.
    spoilt : int64
        Eight bytes that fill the output of a move that failed.
    gives, takes : int64
        Bit r: whether rank r is sent a part, and whether it sends one; the own rank in both.
    REDUCES : constexpr
        Whether what is taken is reduced.
    RANK, WORLD, DTYPE, OP, WIDE, HALF, SLOTS, BLOCK : constexpr
        As of the all-reduce.
    """
    table = address(table).to(tl.pointer_type(tl.int64))
    arena = tl.load(table + RANK)
    block = tl.program_id(0)
    grid = tl.num_programs(0)
    lane = tl.arange(0, BLOCK)
    items = (count + (ITEM - 1)) // ITEM
    epoch = begin_epoch(arena, block)
    alive = lane_alive(arena)
    clear_before_wrap(arena, epoch, block, grid, HALF, BLOCK)
    half = LL + (epoch & 1).to(tl.int64) * HALF
    operation = operation.to(tl.int32)

    for start in range(block * BLOCK, items, grid * BLOCK):
        item = (start + lane).to(tl.int64)
        valid = item < items
        token = (lane == 0) & (start == block * BLOCK)
        for step in tl.static_range(1, WORLD):
            peer = tl.load(table + (RANK + step) % WORLD)
            given = valid & (((gives >> ((RANK + step) % WORLD)) & 1) != 0)
            part = source + (RANK + step) % WORLD * send_step
            data0, data1 = load_item(part, item, count, given, UINT8, WIDE)
            slot = RANK * (SLOTS // SLOT // WORLD) + item
            ll_send(peer + half + slot * SLOT, data0, data1, epoch, (given | token) & (alive != 0))
    advance_epoch(arena, block, grid, epoch)
    found = enter_lane(arena, block)

    for start in range(block * BLOCK, items, grid * BLOCK):
        item = (start + lane).to(tl.int64)
        valid = item < items
        token = (lane == 0) & (start == block * BLOCK)
        for rank in tl.static_range(WORLD):
            taken = valid & (((takes >> rank) & 1) != 0)
            if rank == RANK:
                word0, word1 = load_item(source + rank * send_step, item, count, taken, UINT8, WIDE)
            else:
                slot = rank * (SLOTS // SLOT // WORLD) + item
                word0, word1, alive = ll_recv(
                    arena + half + slot * SLOT,
                    slot,
                    epoch,
                    taken | token,
                    alive,
                    arena,
                    table,
                    limit_ns,
                    operation,
                    rank,
                    RANK,
                    WORLD,
                )
            if REDUCES:
                if rank == 0:
                    total = unpack(word0, word1, scale, DTYPE, OP)
                else:
                    total = fold(total, unpack(word0, word1, scale, DTYPE, OP), OP)
            else:
                word0 = tl.where(alive != 0, word0, spoilt.to(tl.int32))
                word1 = tl.where(alive != 0, word1, (spoilt >> 32).to(tl.int32))
                place = target + rank * take_step
                store_item(place, item, word0, word1, count, taken, UINT8, WIDE)
        if REDUCES:
            word0, word1 = pack(total, WORLD, DTYPE, OP)
            word0 = tl.where(alive != 0, word0, spoilt_word(0, DTYPE))
            word1 = tl.where(alive != 0, word1, spoilt_word(1, DTYPE))
            store_item(target, item, word0, word1, count, valid & (takes != 0), UINT8, WIDE)

    leave_lane(arena, table, block, found, alive, operation, RANK, WORLD)
