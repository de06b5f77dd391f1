"""All-reduce over sentinel slots: one-shot and two-shot kernels in Triton.

The kernels are those of :mod:`worldline.kernels.all_reduce_ll`, with slots of 16 bytes of data (a
pair of items) and with tokens in the first program. Own data is added as it is: where a word had to
be sent as another NaN, the sum is the one NaN of its dtype on every rank.
"""

import triton.language as tl

from worldline.primitives import layout
from worldline.primitives.deadline import lane_alive
from worldline.primitives.jit import ARGUMENTS, device_function, kernel
from worldline.primitives.memory_ops import address
from worldline.primitives.numerics import add, elements_per_slot, nan_word, pack, unpack
from worldline.primitives.overlap import enter_lane, leave_lane
from worldline.primitives.sentinel import (
    advance_stage,
    begin_stage,
    send_tokens,
    sentinel_recv,
    sentinel_send,
)
from worldline.primitives.vectors import items_of_share, load_items, store_items

SLOT = tl.constexpr(layout.SLOT)
OPERATION = tl.constexpr(layout.OPERATIONS.index("all_reduce"))


@device_function
def _reduce(
    own,
    stage,
    stride: tl.constexpr,
    slot,
    count,
    mask,
    alive,
    arena,
    table,
    limit_ns,
    RANK: tl.constexpr,
    WORLD: tl.constexpr,
    DTYPE: tl.constexpr,
):
    """Receive every peer's slot [rank][slot] and add all ranks' data in rank order, own included.

    Returns the rounded sum's four words, NaN where a wait failed, and ``alive``.
    """
    for rank in tl.static_range(WORLD):
        if rank == RANK:
            data0, data1, data2, data3 = own[0], own[1], own[2], own[3]
        else:
            index = rank * stride + slot
            data0, data1, data2, data3, alive = sentinel_recv(
                arena + stage + index * SLOT,
                index,
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
            low = unpack(data0, data1, DTYPE)
            high = unpack(data2, data3, DTYPE)
        else:
            low = add(low, unpack(data0, data1, DTYPE), DTYPE)
            high = add(high, unpack(data2, data3, DTYPE), DTYPE)
    word0, word1 = pack(low, DTYPE)
    word2, word3 = pack(high, DTYPE)
    return word0, word1, word2, word3, alive


@device_function
def _or_nan(words, alive, DTYPE: tl.constexpr):
    return (
        tl.where(alive != 0, words[0], nan_word(DTYPE)),
        tl.where(alive != 0, words[1], nan_word(DTYPE)),
        tl.where(alive != 0, words[2], nan_word(DTYPE)),
        tl.where(alive != 0, words[3], nan_word(DTYPE)),
    )


@kernel(do_not_specialize=ARGUMENTS)
def all_reduce_sentinel_one_shot(
    source: tl.int64,
    target: tl.int64,
    table: tl.int64,
    count: tl.int64,
    limit_ns: tl.int64,
    RANK: tl.constexpr,
    WORLD: tl.constexpr,
    DTYPE: tl.constexpr,
    WIDE: tl.constexpr,
    REGION: tl.constexpr,
    STAGE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum ``count`` elements at address ``source`` over all ranks into address ``target``.

    Parameters are those of :func:`worldline.kernels.all_reduce_ll.all_reduce_ll_one_shot`, but for
    REGION and STAGE: the sentinel region's offset and the bytes of a stage. BLOCK counts slots.
    ``count`` is at most what STAGE / WORLD bytes hold.
    """
    table = address(table).to(tl.pointer_type(tl.int64))
    arena = tl.load(table + RANK)
    block = tl.program_id(0)
    grid = tl.num_programs(0)
    lane = tl.arange(0, BLOCK)
    items = (count + (elements_per_slot(DTYPE) - 1)) // elements_per_slot(DTYPE)
    slots = (items + 1) // 2
    number = begin_stage(arena, block)
    alive = lane_alive(arena)
    stage = REGION + (number & 3).to(tl.int64) * STAGE

    for start in range(block * BLOCK, slots, grid * BLOCK):
        slot = (start + lane).to(tl.int64)
        valid = slot < slots
        own = load_items(source, slot, items, count, valid, DTYPE, WIDE)
        for step in tl.static_range(1, WORLD):
            peer = tl.load(table + (RANK + step) % WORLD)
            index = RANK * (STAGE // SLOT // WORLD) + slot
            to = peer + stage + index * SLOT
            sentinel_send(to, own[0], own[1], own[2], own[3], valid & (alive != 0), DTYPE)
    advance_stage(arena, block, grid, number)
    found = enter_lane(arena, block)

    for start in range(block * BLOCK, slots, grid * BLOCK):
        slot = (start + lane).to(tl.int64)
        valid = slot < slots
        own = load_items(source, slot, items, count, valid, DTYPE, WIDE)
        word0, word1, word2, word3, alive = _reduce(
            own,
            stage,
            STAGE // SLOT // WORLD,
            slot,
            number,
            valid,
            alive,
            arena,
            table,
            limit_ns,
            RANK,
            WORLD,
            DTYPE,
        )
        words = _or_nan((word0, word1, word2, word3), alive, DTYPE)
        store_items(target, slot, words, items, count, valid, DTYPE, WIDE)

    alive = send_tokens(block, number, alive, arena, table, limit_ns, OPERATION, RANK, WORLD)
    leave_lane(arena, table, block, found, alive, OPERATION, RANK, WORLD)


@kernel(do_not_specialize=ARGUMENTS)
def all_reduce_sentinel_two_shot(
    source: tl.int64,
    target: tl.int64,
    table: tl.int64,
    count: tl.int64,
    limit_ns: tl.int64,
    RANK: tl.constexpr,
    WORLD: tl.constexpr,
    DTYPE: tl.constexpr,
    WIDE: tl.constexpr,
    REGION: tl.constexpr,
    STAGE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum as :func:`all_reduce_sentinel_one_shot` does, each rank reducing one share.

    ``count`` is at most what STAGE / 2 / WORLD * WORLD bytes hold.
    """
    table = address(table).to(tl.pointer_type(tl.int64))
    arena = tl.load(table + RANK)
    block = tl.program_id(0)
    grid = tl.num_programs(0)
    lane = tl.arange(0, BLOCK)
    items = (count + (elements_per_slot(DTYPE) - 1)) // elements_per_slot(DTYPE)
    slots = (items + 1) // 2
    share = (slots + (WORLD - 1)) // WORLD
    number = begin_stage(arena, block)
    alive = lane_alive(arena)
    stage = REGION + (number & 3).to(tl.int64) * STAGE
    stride: tl.constexpr = STAGE // SLOT // 2 // WORLD

    for start in range(block * BLOCK, share, grid * BLOCK):
        place = (start + lane).to(tl.int64)
        for step in tl.static_range(1, WORLD):
            owner = (RANK + step) % WORLD
            valid, exchanged = items_of_share(owner, slots, share, place, block * BLOCK)
            own = load_items(source, owner * share + place, items, count, valid, DTYPE, WIDE)
            to = tl.load(table + owner) + stage + (RANK * stride + place) * SLOT
            sentinel_send(to, own[0], own[1], own[2], own[3], exchanged & (alive != 0), DTYPE)
    advance_stage(arena, block, grid, number)
    found = enter_lane(arena, block)

    for start in range(block * BLOCK, share, grid * BLOCK):
        place = (start + lane).to(tl.int64)
        valid, exchanged = items_of_share(RANK, slots, share, place, block * BLOCK)
        own = load_items(source, RANK * share + place, items, count, valid, DTYPE, WIDE)
        word0, word1, word2, word3, alive = _reduce(
            own,
            stage,
            stride,
            place,
            number,
            exchanged,
            alive,
            arena,
            table,
            limit_ns,
            RANK,
            WORLD,
            DTYPE,
        )
        for step in tl.static_range(1, WORLD):
            peer = tl.load(table + (RANK + step) % WORLD)
            to = peer + stage + ((WORLD + RANK) * stride + place) * SLOT
            sentinel_send(to, word0, word1, word2, word3, exchanged & (alive != 0), DTYPE)
        words = _or_nan((word0, word1, word2, word3), alive, DTYPE)
        store_items(target, RANK * share + place, words, items, count, valid, DTYPE, WIDE)

    for start in range(block * BLOCK, share, grid * BLOCK):
        place = (start + lane).to(tl.int64)
        for step in tl.static_range(1, WORLD):
            owner = (RANK + step) % WORLD
            valid, exchanged = items_of_share(owner, slots, share, place, block * BLOCK)
            index = (WORLD + owner) * stride + place
            word0, word1, word2, word3, alive = sentinel_recv(
                arena + stage + index * SLOT,
                index,
                number,
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
            words = _or_nan((word0, word1, word2, word3), alive, DTYPE)
            store_items(target, owner * share + place, words, items, count, valid, DTYPE, WIDE)

    alive = send_tokens(block, number, alive, arena, table, limit_ns, OPERATION, RANK, WORLD)
    leave_lane(arena, table, block, found, alive, OPERATION, RANK, WORLD)
