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
A table of their own is the *tokens'*: block b of a rank tells block b of every peer "all that I
emptied in earlier passes is empty for you too", and waits for what those told it in the pass
before. The release covers what every thread of the block stored before, by the end of the kernel
before or by the block barrier; the acquire, and the kernel's end or a block barrier, hold for every
thread that stores next.
"""

import triton.language as tl

from worldline.primitives import layout
from worldline.primitives.deadline import clock_ns, give_way, overdue, report_timeout
from worldline.primitives.jit import device_function
from worldline.primitives.memory_ops import pause

ROUNDS = tl.constexpr(layout.ROUNDS)
FLAGS = tl.constexpr(layout.FLAGS)
TOKENS = tl.constexpr(layout.TOKENS)
MAX_WORLD = tl.constexpr(layout.MAX_WORLD)


@device_function
def put_signal(base, flags: tl.constexpr, block, source, value):
    """Raise flags[block][source] of the arena at ``base``; covers the block's earlier stores."""
    flag = (base + flags).to(tl.pointer_type(tl.int32)) + block * MAX_WORLD + source
    tl.debug_barrier()
    tl.atomic_xchg(flag, value, sem="release", scope="sys")


@device_function
def in_steps(value, step: tl.constexpr):
    """Return an unsigned 32-bit number, an int32 here, in units of a power of two."""
    return (value // step) if step == 1 else ((value >> 1) & 0x7FFFFFFF) // (step // 2)


@device_function
def wait_signal(
    flags: tl.constexpr,
    step: tl.constexpr,
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
    """Wait until flags[block][peer] of the own arena is not before ``value``; returns ``alive``.

    The record of a wait in vain holds values in units of ``step``, a power of two.
    """
    flag = (arena + flags).to(tl.pointer_type(tl.int32)) + block * MAX_WORLD + peer
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
                        number = in_steps(value, step)
                        report_timeout(
                            arena,
                            table,
                            operation,
                            number,
                            source,
                            block,
                            number,
                            in_steps(seen, step),
                            RANK,
                            WORLD,
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
            put_signal(tl.load(table + peer), FLAGS, block, RANK, value)
    for step in tl.static_range(1, WORLD):
        peer = (RANK + step) % WORLD
        alive = wait_signal(
            FLAGS, 1, block, value, alive, arena, table, limit_ns, operation, peer, RANK, WORLD
        )
    return alive


@device_function
def send_tokens(block, token, alive, table, RANK: tl.constexpr, WORLD: tl.constexpr):
    """Tell this block of every peer ``token``."""
    if alive != 0:
        for peer in tl.static_range(WORLD):
            if peer != RANK:
                put_signal(tl.load(table + peer), TOKENS, block, RANK, token)


@device_function
def wait_tokens(
    step: tl.constexpr,
    block,
    token,
    alive,
    arena,
    table,
    limit_ns,
    operation,
    RANK: tl.constexpr,
    WORLD: tl.constexpr,
):
    """Wait until every peer's token is not before ``token``; returns ``alive``."""
    for peer in tl.static_range(WORLD):
        if peer != RANK:
            alive = wait_signal(
                TOKENS,
                step,
                block,
                token,
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
