"""Signals: a flag published after bulk data, and the barrier made of them.

The barrier is the slow reference: it shows what removing it saves, and it checks the kernels that
do without. Each block b has its own: flags[b][source] in every rank's arena, and a counter of
rounds that only block b's barriers advance. So it needs equal grids on all ranks, and flags of a
block never fall more than one round behind, whatever other operations run in between.

A flag is monotonic and compared as "not before", by the sign of the 32-bit difference: a peer that
has passed this barrier may already have raised its flag for the next, and a reader polling for
equality would miss it.

Memory order
------------
Data stores of all threads, a block-wide barrier, a release store of the flag by one thread; an
acquire load of the flag, a block-wide barrier, loads of the data. Without the first block barrier
the release covers one thread's stores only.

Tokens
------
A row of flags beyond the blocks' own is the *tokens'*: the first block of an operation of a
protocol that re-arms what it has read tells every peer "all that my earlier operations emptied is
empty for you too", and waits for what its peers told in the operation before. The release covers
the stores of every thread of the kernels before, whose ends came before it; the acquire holds for
every thread of the kernels that follow. It comes last: nothing of the operation waits for it.
"""

import triton.language as tl

from worldline.primitives import layout
from worldline.primitives.deadline import clock_ns, give_way, overdue, report_timeout
from worldline.primitives.jit import device_function
from worldline.primitives.memory_ops import pause

ROUNDS = tl.constexpr(layout.ROUNDS)
FLAGS = tl.constexpr(layout.FLAGS)
TOKENS = tl.constexpr(layout.MAX_BLOCKS)
MAX_WORLD = tl.constexpr(layout.MAX_WORLD)


@device_function
def put_signal(base, block, source, value):
    """Raise flags[block][source] of the arena at ``base``; covers the block's earlier stores."""
    flag = (base + FLAGS).to(tl.pointer_type(tl.int32)) + block * MAX_WORLD + source
    tl.debug_barrier()
    tl.atomic_xchg(flag, value, sem="release", scope="sys")


@device_function
def wait_signal(
    block,
    value,
    alive,
    arena,
    table,
    limit_ns,
    operation,
    peer,
    RANK: tl.constexpr,
    WORLD: tl.constexpr,
):
    """Wait until flags[block][peer] of the own arena is not before ``value``; returns ``alive``."""
    flag = (arena + FLAGS).to(tl.pointer_type(tl.int32)) + block * MAX_WORLD + peer
    nothing = value * 0
    seen = tl.atomic_add(flag, nothing, sem="acquire", scope="sys")
    if (alive != 0) & ((seen - value) < 0):
        started = clock_ns()
        source = nothing + peer
        waiting = alive
        while waiting != 0:
            pause()
            seen = tl.atomic_add(flag, nothing, sem="acquire", scope="sys")
            waiting = ((seen - value) < 0).to(tl.int32)
            if waiting != 0:
                verdict = overdue(arena, source, started, limit_ns)
                if verdict != 0:
                    if verdict == 1:
                        report_timeout(
                            arena, table, operation, value, source, block, value, seen, RANK, WORLD
                        )
                    else:
                        give_way(arena)
                    alive = alive * 0
                    waiting = waiting * 0
    tl.debug_barrier()
    return alive


@device_function
def begin_round(arena, block):
    """Return the value of this block's next barrier, an int32 scalar."""
    return tl.load((arena + ROUNDS).to(tl.pointer_type(tl.int32)) + block, volatile=True) + 1


@device_function
def end_round(arena, block, value):
    """Store the value of this block's last barrier of the launch."""
    tl.debug_barrier()
    tl.store((arena + ROUNDS).to(tl.pointer_type(tl.int32)) + block, value)


@device_function
def barrier(
    block,
    value,
    alive,
    arena,
    table,
    limit_ns,
    operation,
    RANK: tl.constexpr,
    WORLD: tl.constexpr,
):
    """Meet block ``block`` of every peer at ``value``; returns ``alive``."""
    if alive != 0:
        for step in tl.static_range(1, WORLD):
            peer = (RANK + step) % WORLD
            put_signal(tl.load(table + peer), block, RANK, value)
    for step in tl.static_range(1, WORLD):
        peer = (RANK + step) % WORLD
        alive = wait_signal(
            block, value, alive, arena, table, limit_ns, operation, peer, RANK, WORLD
        )
    return alive


@device_function
def exchange_tokens(
    token,
    step,
    alive,
    arena,
    table,
    limit_ns,
    operation,
    RANK: tl.constexpr,
    WORLD: tl.constexpr,
):
    """Send ``token`` to every peer and wait for theirs of one ``step`` before; returns ``alive``.

    For one block of an operation; the tokens of operations that follow each other differ by
    ``step``.
    """
    row = token * 0 + TOKENS
    if alive != 0:
        for peer in tl.static_range(WORLD):
            if peer != RANK:
                put_signal(tl.load(table + peer), row, RANK, token)
    for peer in tl.static_range(WORLD):
        if peer != RANK:
            alive = wait_signal(
                row,
                token - step,
                alive,
                arena,
                table,
                limit_ns,
                operation,
                peer,
                RANK,
                WORLD,
            )
    return alive
