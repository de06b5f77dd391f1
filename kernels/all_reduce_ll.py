"""All-reduce over LL slots: one-shot and two-shot kernels in Triton.

One-shot: every rank sends its whole input to every peer and each reduces everything. Two-shot: the
input is cut into one share to a rank; each rank sends share p to its owner p, reduces its own share
and sends the result to all. Both wait in program b only for the peers' program b, so the
interpreter, which runs programs one after another, can run both.

In one launch, all ranks use equal grids, with at most as many programs as there are blocks of
items. Every program exchanges at least one slot with every peer in both directions
(:mod:`worldline.primitives.ll`); in the two-shot, a token where a share has no data.
"""

import triton.language as tl

from worldline.primitives import layout
from worldline.primitives.deadline import lane_alive
from worldline.primitives.epochs import advance_epoch, begin_epoch, clear_before_wrap
from worldline.primitives.jit import ARGUMENTS, device_function, kernel
from worldline.primitives.ll import ll_recv, ll_send
from worldline.primitives.memory_ops import address
from worldline.primitives.numerics import elements_per_slot, fold, pack, spoilt_word, unpack
from worldline.primitives.overlap import enter_lane, leave_lane
from worldline.primitives.vectors import items_of_share, load_item, store_item

LL = tl.constexpr(layout.LL)
SLOT = tl.constexpr(layout.SLOT)
OPERATION = tl.constexpr(layout.OPERATIONS.index("all_reduce"))


@device_function
def _reduce(
    own0,
    own1,
    half,
    stride: tl.constexpr,
    item,
    epoch,
    mask,
    alive,
    arena,
    table,
    limit_ns,
    scale,
    RANK: tl.constexpr,
    WORLD: tl.constexpr,
    DTYPE: tl.constexpr,
    OP: tl.constexpr,
):
    """Receive every peer's slot [rank][item] and add all ranks' data in rank order, own included.

    Returns the rounded sum's two words and ``alive``; the words mean nothing where that is 0.
    """
    for rank in tl.static_range(WORLD):
        if rank == RANK:
            data0, data1 = own0, own1
        else:
            slot = rank * stride + item
            data0, data1, alive = ll_recv(
                arena + half + slot * SLOT,
                slot,
                epoch,
                mask,
                alive,
                arena,
                table,
                limit_ns,
                OPERATION,
                rank,
                RANK,
                WORLD,
            )
        if rank == 0:
            total = unpack(data0, data1, scale, DTYPE, OP)
        else:
            total = fold(total, unpack(data0, data1, scale, DTYPE, OP), OP)
    word0, word1 = pack(total, WORLD, DTYPE, OP)
    return word0, word1, alive


@kernel(do_not_specialize=ARGUMENTS)
def all_reduce_ll_one_shot(
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
    HALF: tl.constexpr,
    SLOTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum ``count`` elements at address ``source`` over all ranks into address ``target``.

    Parameters
    ----------
    source, target : int64
        Addresses of the own input and output; equal for an operation in place.
    table : int64
        Address of the int64 bases of all arenas, as this rank sees them, and of the notice.
    count : int
        Elements, 1 to SLOTS / 16 / WORLD * elements per slot.
    limit_ns : int64
        The deadline of each wait.
    RANK, WORLD, DTYPE, WIDE, HALF, SLOTS, BLOCK : constexpr
        Own rank, ranks, code of the dtype, whether the tensors take 8-byte accesses, bytes of
        half the LL region and of its slots, items to a program and pass.
    """
    table = address(table).to(tl.pointer_type(tl.int64))
    arena = tl.load(table + RANK)
    block = tl.program_id(0)
    grid = tl.num_programs(0)
    lane = tl.arange(0, BLOCK)
    items = (count + (elements_per_slot(DTYPE) - 1)) // elements_per_slot(DTYPE)
    epoch = begin_epoch(arena, block)
    alive = lane_alive(arena)
    clear_before_wrap(arena, epoch, block, grid, HALF, BLOCK)
    half = LL + (epoch & 1).to(tl.int64) * HALF

    for start in range(block * BLOCK, items, grid * BLOCK):
        item = (start + lane).to(tl.int64)
        valid = item < items
        data0, data1 = load_item(source, item, count, valid, DTYPE, WIDE)
        for step in tl.static_range(1, WORLD):
            peer = tl.load(table + (RANK + step) % WORLD)
            slot = RANK * (SLOTS // SLOT // WORLD) + item
            ll_send(peer + half + slot * SLOT, data0, data1, epoch, valid & (alive != 0))
    advance_epoch(arena, block, grid, epoch)
    found = enter_lane(arena, block)

    for start in range(block * BLOCK, items, grid * BLOCK):
        item = (start + lane).to(tl.int64)
        valid = item < items
        own0, own1 = load_item(source, item, count, valid, DTYPE, WIDE)
        word0, word1, alive = _reduce(
            own0,
            own1,
            half,
            SLOTS // SLOT // WORLD,
            item,
            epoch,
            valid,
            alive,
            arena,
            table,
            limit_ns,
            scale,
            RANK,
            WORLD,
            DTYPE,
            OP,
        )
        word0 = tl.where(alive != 0, word0, spoilt_word(0, DTYPE))
        word1 = tl.where(alive != 0, word1, spoilt_word(1, DTYPE))
        store_item(target, item, word0, word1, count, valid, DTYPE, WIDE)

    leave_lane(arena, table, block, found, alive, OPERATION, RANK, WORLD)


@kernel(do_not_specialize=ARGUMENTS)
def all_reduce_ll_two_shot(
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
    HALF: tl.constexpr,
    SLOTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum as :func:`all_reduce_ll_one_shot` does, each rank reducing one share.

    ``count`` is at most SLOTS / 32 / WORLD * WORLD * elements per slot.
    """
    table = address(table).to(tl.pointer_type(tl.int64))
    arena = tl.load(table + RANK)
    block = tl.program_id(0)
    grid = tl.num_programs(0)
    lane = tl.arange(0, BLOCK)
    items = (count + (elements_per_slot(DTYPE) - 1)) // elements_per_slot(DTYPE)
    share = (items + (WORLD - 1)) // WORLD
    epoch = begin_epoch(arena, block)
    alive = lane_alive(arena)
    clear_before_wrap(arena, epoch, block, grid, HALF, BLOCK)
    half = LL + (epoch & 1).to(tl.int64) * HALF
    stride: tl.constexpr = SLOTS // SLOT // 2 // WORLD

    for start in range(block * BLOCK, share, grid * BLOCK):
        index = (start + lane).to(tl.int64)
        for step in tl.static_range(1, WORLD):
            owner = (RANK + step) % WORLD
            valid, exchanged = items_of_share(owner, items, share, index, block * BLOCK)
            data0, data1 = load_item(source, owner * share + index, count, valid, DTYPE, WIDE)
            slot = RANK * stride + index
            ll_send(
                tl.load(table + owner) + half + slot * SLOT,
                data0,
                data1,
                epoch,
                exchanged & (alive != 0),
            )
    advance_epoch(arena, block, grid, epoch)
    found = enter_lane(arena, block)

    for start in range(block * BLOCK, share, grid * BLOCK):
        index = (start + lane).to(tl.int64)
        valid, exchanged = items_of_share(RANK, items, share, index, block * BLOCK)
        own0, own1 = load_item(source, RANK * share + index, count, valid, DTYPE, WIDE)
        word0, word1, alive = _reduce(
            own0,
            own1,
            half,
            stride,
            index,
            epoch,
            exchanged,
            alive,
            arena,
            table,
            limit_ns,
            scale,
            RANK,
            WORLD,
            DTYPE,
            OP,
        )
        for step in tl.static_range(1, WORLD):
            peer = tl.load(table + (RANK + step) % WORLD)
            slot = (WORLD + RANK) * stride + index
            ll_send(peer + half + slot * SLOT, word0, word1, epoch, exchanged & (alive != 0))
        word0 = tl.where(alive != 0, word0, spoilt_word(0, DTYPE))
        word1 = tl.where(alive != 0, word1, spoilt_word(1, DTYPE))
        store_item(target, RANK * share + index, word0, word1, count, valid, DTYPE, WIDE)

    for start in range(block * BLOCK, share, grid * BLOCK):
        index = (start + lane).to(tl.int64)
        for step in tl.static_range(1, WORLD):
            owner = (RANK + step) % WORLD
            valid, exchanged = items_of_share(owner, items, share, index, block * BLOCK)
            slot = (WORLD + owner) * stride + index
            word0, word1, alive = ll_recv(
                arena + half + slot * SLOT,
                slot,
                epoch,
                exchanged,
                alive,
                arena,
                table,
                limit_ns,
                OPERATION,
                owner,
                RANK,
                WORLD,
            )
            word0 = tl.where(alive != 0, word0, spoilt_word(0, DTYPE))
            word1 = tl.where(alive != 0, word1, spoilt_word(1, DTYPE))
            store_item(target, owner * share + index, word0, word1, count, valid, DTYPE, WIDE)

    leave_lane(arena, table, block, found, alive, OPERATION, RANK, WORLD)
