"""No wait is forever: the deadline, its record and the dead lane.

A wait that outlives its deadline ends. The first block of a rank to which that happens takes the
record's lock, writes the record (operation, epoch, rank, peer, slot, expected, seen) into its own
arena, and then stores its rank + 1 into the *dead word* of its own arena and of every peer's. The
word is sticky (of several reporters the last one's stays; each has its record): waits that are
under way see it within one round of the slow path, and every later kernel on the lane finds it at
entry, sends nothing and gives NaN. ``World.recover()`` alone clears it.

The host of a GPU cannot look at the dead word without stopping for it. So a kernel that ends on a
dead lane also raises a *notice*: a word that the host reads as its own memory, whose address
follows the bases in the table.

While it waits on the slow path a rank shows whom it waits for (peer + 1) and a beat that advances;
a wait that ends because the lane died says so. By these a host tells a peer that is gone or late
from one that was itself waiting, and names the former.

Cost in the fast case: one load of the dead word beside the epoch's. The clock is first read
after 1024 polls (in the interpreter: after one).
"""

import triton.language as tl

from worldline.primitives import layout
from worldline.primitives.jit import INTERPRETED, device_function, host_clock_ns
from worldline.primitives.memory_ops import agreed

DEAD = tl.constexpr(layout.DEAD)
RECORD_LOCK = tl.constexpr(layout.RECORD_LOCK)
RECORD = tl.constexpr(layout.RECORD)
RECORD_WHOLE = tl.constexpr(layout.RECORD_WORDS)
WAIT_PEER = tl.constexpr(layout.WAIT_PEER)
WAIT_BEAT = tl.constexpr(layout.WAIT_BEAT)
GAVE_WAY = tl.constexpr(layout.GAVE_WAY)


@device_function
def clock_ns():
    """Nanoseconds of a clock that runs at the same rate for the whole device (int64)."""
    if INTERPRETED:
        now = host_clock_ns()
    else:
        now = tl.inline_asm_elementwise(
            "mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
        )
    return now


@device_function
def lane_alive(arena):
    """Return 1 unless the lane's dead word is set (int32 scalar)."""
    dead = tl.load((arena + DEAD).to(tl.pointer_type(tl.int64)), volatile=True)
    return (dead == 0).to(tl.int32)


@device_function
def give_notice(table, WORLD: tl.constexpr):
    """Raise the host's notice that the lane is dead."""
    notice = tl.load(table + WORLD)
    tl.store(notice.to(tl.pointer_type(tl.int64)), notice * 0 + 1)


@device_function
def kill_lane(table, zero, RANK: tl.constexpr, WORLD: tl.constexpr):
    """Set the dead word of every rank; ``zero`` is an int64 scalar 0."""
    for step in tl.static_range(WORLD):
        base = tl.load(table + (RANK + step) % WORLD)
        word = (base + DEAD).to(tl.pointer_type(tl.int64))
        tl.atomic_xchg(word, zero + RANK + 1, sem="release", scope="sys")


@device_function
def show_waiting(arena, peer):
    """Show on the own arena that this rank waits for ``peer``, and that it is still running."""
    tl.store((arena + WAIT_PEER).to(tl.pointer_type(tl.int64)), (peer + 1).to(tl.int64))
    tl.atomic_add(
        (arena + WAIT_BEAT).to(tl.pointer_type(tl.int64)),
        (peer * 0 + 1).to(tl.int64),
        sem="relaxed",
        scope="sys",
    )


@device_function
def overdue(arena, peer, started, limit_ns):
    """Look at the clock and the dead word, in a wait that has polled in vain for a while.

    Returns 0 where it goes on, 1 past the deadline, 2 on a dead lane: one value for the block.
    """
    show_waiting(arena, peer)
    dead = tl.load((arena + DEAD).to(tl.pointer_type(tl.int64)), volatile=True)
    late = (clock_ns() - started) > limit_ns
    # Each thread has read both for itself.
    return agreed(tl.where(dead != 0, 2, late.to(tl.int32)))


@device_function
def give_way(arena):
    """Say that a wait of this rank ended because the lane died, not by its own deadline."""
    one = (lane_alive(arena) * 0 + 1).to(tl.int64)
    tl.store((arena + GAVE_WAY).to(tl.pointer_type(tl.int64)), one)


@device_function
def report_timeout(
    arena,
    table,
    operation,
    epoch,
    peer,
    slot,
    expected,
    seen,
    RANK: tl.constexpr,
    WORLD: tl.constexpr,
):
    """Write the record, unless this rank has one, and kill the lane on every rank.

    Parameters
    ----------
    arena : int64
        Base of the own arena.
    table : pointer to int64
        Bases of all arenas, as this rank sees them.
    operation, epoch, peer, slot, expected, seen : int32
        The record's fields; ``operation`` is an index into ``layout.OPERATIONS``.
    """
    zero = (peer * 0).to(tl.int64)
    lock = (arena + RECORD_LOCK).to(tl.pointer_type(tl.int64))
    if tl.atomic_xchg(lock, zero + 1, sem="relaxed", scope="sys") == 0:
        record = (arena + RECORD).to(tl.pointer_type(tl.int64))
        tl.store(record + 0, zero + operation)
        tl.store(record + 1, epoch.to(tl.int64))
        tl.store(record + 2, zero + RANK)
        tl.store(record + 3, peer.to(tl.int64))
        tl.store(record + 4, slot.to(tl.int64))
        tl.store(record + 5, expected.to(tl.int64))
        tl.store(record + 6, seen.to(tl.int64))
        # The record before the words that announce it, for whoever reads it on another rank: the
        # lock is taken before there is anything to read.
        tl.debug_barrier()
        tl.atomic_xchg(record + RECORD_WHOLE, zero + 1, sem="release", scope="sys")
        kill_lane(table, zero, RANK, WORLD)
