"""All-reduce over sentinel slots: one-shot and two-shot kernels in Triton.

The kernels are those of :mod:`worldline.kernels.all_reduce_ll`, with slots of 16 bytes of data (a
pair of items) and passes through a channel for each program. Own data is added as it is: where a
word had to be sent as another NaN, the sum is the one NaN of its dtype on every rank.
"""

import triton.language as tl

from worldline.primitives import layout
from worldline.primitives.deadline import lane_alive
from worldline.primitives.jit import ARGUMENTS, device_function, kernel
from worldline.primitives.memory_ops import address, agreed, worked_out_anew
from worldline.primitives.numerics import elements_per_slot, fold, pack, spoilt_word, unpack
from worldline.primitives.overlap import enter_lane, leave_lane
from worldline.primitives.sentinel import (
    begin_stage,
    came_after_several,
    exchanges_tokens,
    first_heard,
    hear_emptied,
    keep_stage,
    next_stage,
    sentinel_recv,
    sentinel_send,
    source_index,
    tell_emptied,
)
from worldline.primitives.vectors import load_items, store_items

SLOT = tl.constexpr(layout.SLOT)
OPERATION = tl.constexpr(layout.OPERATIONS.index("all_reduce"))


@device_function
def _reduce(
    own,
    channel,
    first,
    stride: tl.constexpr,
    lane,
    count,
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
    """Receive every peer's slots [peer][lane] and add all ranks' data in rank order, own included.

    ``channel`` is the offset of the slots and ``first`` the index of the first, for the record.
    Returns the rounded sum's four words, NaN where a wait failed, and ``alive``.
    """
    for rank in tl.static_range(WORLD):
        if rank == RANK:
            data0, data1, data2, data3 = own[0], own[1], own[2], own[3]
        else:
            index = source_index(rank, RANK) * stride + lane
            data0, data1, data2, data3, alive = sentinel_recv(
                arena + channel + index * SLOT,
                first + index,
                count,
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
            low = unpack(data0, data1, scale, DTYPE, OP)
            high = unpack(data2, data3, scale, DTYPE, OP)
        else:
            low = fold(low, unpack(data0, data1, scale, DTYPE, OP), OP)
            high = fold(high, unpack(data2, data3, scale, DTYPE, OP), OP)
    word0, word1 = pack(low, WORLD, DTYPE, OP)
    word2, word3 = pack(high, WORLD, DTYPE, OP)
    return word0, word1, word2, word3, alive


@device_function
def _or_nan(words, alive, DTYPE: tl.constexpr):
    return (
        tl.where(alive != 0, words[0], spoilt_word(0, DTYPE)),
        tl.where(alive != 0, words[1], spoilt_word(1, DTYPE)),
        tl.where(alive != 0, words[2], spoilt_word(0, DTYPE)),
        tl.where(alive != 0, words[3], spoilt_word(1, DTYPE)),
    )


@kernel(do_not_specialize=ARGUMENTS)
def all_reduce_sentinel_one_shot(
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
    REGION: tl.constexpr,
    STAGE: tl.constexpr,
    CHANNEL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum ``count`` elements at address ``source`` over all ranks into address ``target``.

    Parameters are those of :func:`worldline.kernels.all_reduce_ll.all_reduce_ll_one_shot`, but for
    REGION, STAGE and CHANNEL: the sentinel region's offset, the bytes of a stage and those of a
    channel. BLOCK counts slots, at most those of a peer in a channel; ``count`` is any.
    """
    table = address(table).to(tl.pointer_type(tl.int64))
    arena = tl.load(table + RANK)
    block = tl.program_id(0)
    grid = tl.num_programs(0)
    lane = tl.arange(0, BLOCK)
    items = (count + (elements_per_slot(DTYPE) - 1)) // elements_per_slot(DTYPE)
    slots = (items + 1) // 2
    stride: tl.constexpr = CHANNEL // SLOT // (WORLD - 1 if WORLD > 1 else 1)
    first = begin_stage(arena, block)
    number = first
    several = grid * BLOCK < slots
    exchanges = exchanges_tokens(block, first, several)
    heard = first_heard(first, several, came_after_several(arena, block))
    # Each thread has read the dead word for itself.
    alive = agreed(lane_alive(arena))
    home = block.to(tl.int64) * CHANNEL
    found = block * 0

    for start in range(block * BLOCK, slots, grid * BLOCK):
        channel = REGION + (number & 3).to(tl.int64) * STAGE + home
        if exchanges:
            tell_emptied(block, number, alive, table, RANK, WORLD)
        slot = (start + lane).to(tl.int64)
        valid = slot < slots
        own = load_items(source, slot, items, count, valid, DTYPE, WIDE)
        for step in tl.static_range(1, WORLD):
            peer = (RANK + step) % WORLD
            place = source_index(RANK, peer) * stride + lane
            to = tl.load(table + peer) + channel + place * SLOT
            sentinel_send(to, own[0], own[1], own[2], own[3], valid & (alive != 0), DTYPE)
        keep_stage(arena, block, number, several)
        if start == block * BLOCK:
            found = enter_lane(arena, block)

        word0, word1, word2, word3, alive = _reduce(
            own,
            channel,
            home // SLOT,
            stride,
            lane,
            number,
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
        words = _or_nan((word0, word1, word2, word3), alive, DTYPE)
        store_items(target, slot, words, items, count, valid, DTYPE, WIDE)
        if exchanges:
            alive = hear_emptied(
                block, first, heard, number, alive, arena, table, limit_ns, OPERATION, RANK, WORLD
            )
        number = next_stage(number)

    leave_lane(arena, table, block, found, alive, OPERATION, RANK, WORLD)


@kernel(do_not_specialize=ARGUMENTS)
def all_reduce_sentinel_two_shot(
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
    REGION: tl.constexpr,
    STAGE: tl.constexpr,
    CHANNEL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum as :func:`all_reduce_sentinel_one_shot` does, each rank reducing one share.

    BLOCK is at most half the slots of a peer in a channel.
    """
    table = address(table).to(tl.pointer_type(tl.int64))
    arena = tl.load(table + RANK)
    block = tl.program_id(0)
    grid = tl.num_programs(0)
    lane = tl.arange(0, BLOCK)
    items = (count + (elements_per_slot(DTYPE) - 1)) // elements_per_slot(DTYPE)
    slots = (items + 1) // 2
    share = (slots + (WORLD - 1)) // WORLD
    stride: tl.constexpr = CHANNEL // SLOT // 2 // (WORLD - 1 if WORLD > 1 else 1)
    first = begin_stage(arena, block)
    number = first
    several = grid * BLOCK < share
    exchanges = exchanges_tokens(block, first, several)
    heard = first_heard(first, several, came_after_several(arena, block))
    # Each thread has read the dead word for itself.
    alive = agreed(lane_alive(arena))
    home = block.to(tl.int64) * CHANNEL
    found = block * 0

    for start in range(block * BLOCK, share, grid * BLOCK):
        channel = REGION + (number & 3).to(tl.int64) * STAGE + home
        if exchanges:
            tell_emptied(block, number, alive, table, RANK, WORLD)
        place = (start + lane).to(tl.int64)
        for step in tl.static_range(1, WORLD):
            owner = (RANK + step) % WORLD
            slot = owner * share + place
            held = (place < share) & (slot < slots)
            own = load_items(source, slot, items, count, held, DTYPE, WIDE)
            index = source_index(RANK, owner) * stride + lane
            to = tl.load(table + owner) + channel + index * SLOT
            sentinel_send(to, own[0], own[1], own[2], own[3], held & (alive != 0), DTYPE)
        keep_stage(arena, block, number, several)
        if start == block * BLOCK:
            found = enter_lane(arena, block)

        slot = RANK * share + place
        valid = (place < share) & (slot < slots)
        own = load_items(source, slot, items, count, valid, DTYPE, WIDE)
        word0, word1, word2, word3, alive = _reduce(
            own,
            channel,
            home // SLOT,
            stride,
            lane,
            number,
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
        for step in tl.static_range(1, WORLD):
            peer = (RANK + step) % WORLD
            index = (WORLD - 1 + source_index(RANK, peer)) * stride + lane
            to = tl.load(table + peer) + channel + index * SLOT
            sentinel_send(to, word0, word1, word2, word3, valid & (alive != 0), DTYPE)
        words = _or_nan((word0, word1, word2, word3), alive, DTYPE)
        store_items(target, slot, words, items, count, valid, DTYPE, WIDE)

        # Masks and addresses for every owner would not fit into the registers all the while.
        place = worked_out_anew(place)
        for step in tl.static_range(1, WORLD):
            owner = (RANK + step) % WORLD
            slot = owner * share + place
            held = (place < share) & (slot < slots)
            index = (WORLD - 1 + source_index(owner, RANK)) * stride + lane
            word0, word1, word2, word3, alive = sentinel_recv(
                arena + channel + index * SLOT,
                home // SLOT + index,
                number,
                held,
                alive,
                arena,
                table,
                limit_ns,
                OPERATION,
                owner,
                RANK,
                WORLD,
            )
            words = _or_nan((word0, word1, word2, word3), alive, DTYPE)
            store_items(target, slot, words, items, count, held, DTYPE, WIDE)
        if exchanges:
            alive = hear_emptied(
                block, first, heard, number, alive, arena, table, limit_ns, OPERATION, RANK, WORLD
            )
        number = next_stage(number)

    leave_lane(arena, table, block, found, alive, OPERATION, RANK, WORLD)
