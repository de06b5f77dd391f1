r"""LL: data and flag in one store, no barrier.

Slot
----
A slot is 16 bytes, {data0, epoch, data1, epoch}: two 64-bit words, each a 32-bit half of the data
with its own copy of the epoch above it. It is written by one relaxed system-scope vector store and
read by one relaxed system-scope vector load. A vector access is atomic per 64-bit element and the
architecture promises no more, so the reader checks both epochs. Half of the wire carries data.

::

    byte   0        4        8        12       16
           | data0  | epoch  | data1  | epoch  |

Slot map
--------
The region holds two halves; epoch e uses half e & 1. Inside a half:

* one-shot: slot [source][item], SLOTS / 16 / world slots to a source;
* two-shot: slot [source][item of my share] for the reduce-scatter, then slot [owner][item of its
  share] for the all-gather, SLOTS / 32 / world slots to each.

The map depends on the item alone, never on the grid: launches of any grid follow each other.

Who writes what
---------------
A slot of rank r is written by exactly one peer in an epoch, and every slot that is written is also
polled by r in that epoch. Nobody but r reads it. Slots of r for r itself stay unused: own data is
taken from registers.

Why a slot may be overwritten without a barrier
-----------------------------------------------
Rank q may write into half e & 1 of rank r in epoch e if r has finished reading what epoch e - 2
left there. q's kernel e starts after q's kernel e - 1 has ended. That one received at least one
slot from r with epoch e - 1, so r's kernel e - 1 was running, so r's kernel e - 2 had ended, and
with it all its reads. The argument uses kernel boundaries, not blocks: no grid appears in it. It
needs every kernel to receive from every peer, whatever the peer owns. The rule here is stronger:
every *block* exchanges at least one slot with every peer, in both directions, in every epoch (the
wrap needs it, see :mod:`worldline.primitives.epochs`). So a launch has no more blocks than it has
items for, and a block whose peer owns none of its items sends its first slot as a token.

Memory order
------------
None is needed between slots: each 64-bit word is its own proof. A reader that accepts a word with
epoch e has the data that was stored with it.

Limits
------
4 bytes of data in 8; any bit pattern is legal data and is kept. Epochs wrap after 2^32 - 2
operations (handled). In the interpreter, where a rank's programs run one after another, program b
may wait for the peers' program b only.
"""

import triton.language as tl

from worldline.primitives.deadline import clock_ns, give_way, overdue, report_timeout
from worldline.primitives.jit import device_function
from worldline.primitives.memory_ops import any_true, pause, poll_pair, store_pair

_NO_SLOT = tl.constexpr(0x7FFFFFFF)


@device_function
def ll_send(address, data0, data1, epoch, mask):
    """Store slots {data0, epoch, data1, epoch} where ``mask`` holds.

    Parameters
    ----------
    address : block of int64
        The slots, in a peer's arena; multiples of 16.
    data0, data1 : block of int32
        Their data.
    epoch : int32
        This launch's epoch.
    mask : block of bool
        Slots to write.
    """
    flag = epoch.to(tl.int64) << 32
    store_pair(
        address,
        (data0.to(tl.int64) & 0xFFFFFFFF) | flag,
        (data1.to(tl.int64) & 0xFFFFFFFF) | flag,
        mask,
    )


@device_function
def _missing(word0, word1, epoch, mask):
    return mask & (((word0 >> 32).to(tl.int32) != epoch) | ((word1 >> 32).to(tl.int32) != epoch))


@device_function
def ll_recv(
    address,
    slot,
    epoch,
    mask,
    alive,
    arena,
    table,
    limit_ns,
    operation,
    peer,
    RANK: tl.constexpr,
    WORLD: tl.constexpr,
):
    """Wait for slots of ``epoch`` from ``peer``.

    Parameters
    ----------
    address : block of int64
        The slots, in the own arena.
    slot : block of int64
        Their indices, for the record.
    epoch : int32
        This launch's epoch.
    mask : block of bool
        Slots to wait for.
    alive : int32
        0 after an earlier wait of this block has failed: nothing is waited for.
    arena, table : int64, pointer to int64
        The own base and all bases.
    limit_ns : int64
        The deadline, counted from the first look at the clock.
    operation : int32
        Index into ``layout.OPERATIONS``, for the record.
    peer : constexpr or int32
        Who sends.

    Returns
    -------
    data0, data1 : block of int32
        The data; meaningless where the wait failed.
    alive : int32
        0 if the wait failed: output must then be NaN, and nothing may be sent on.
    """
    wanted = mask & (alive != 0)
    word0, word1 = poll_pair(address, epoch, wanted)
    missing = _missing(word0, word1, epoch, wanted)
    waiting = any_true(missing)
    if waiting != 0:
        source = epoch * 0 + peer
        started = clock_ns()
        while waiting != 0:
            pause()
            word0, word1 = poll_pair(address, epoch, wanted)
            missing = _missing(word0, word1, epoch, wanted)
            waiting = any_true(missing)
            if waiting != 0:
                verdict = overdue(arena, source, started, limit_ns)
                if verdict != 0:
                    if verdict == 1:
                        number = tl.where(missing, slot.to(tl.int32), _NO_SLOT)
                        first = tl.min(number, axis=0)
                        flag0 = (word0 >> 32).to(tl.int32)
                        flag = tl.where(flag0 != epoch, flag0, (word1 >> 32).to(tl.int32))
                        seen = tl.min(tl.where(number == first, flag, _NO_SLOT), axis=0)
                        report_timeout(
                            arena, table, operation, epoch, source, first, epoch, seen, RANK, WORLD
                        )
                    else:
                        give_way(arena)
                    alive = alive * 0
                    waiting = waiting * 0
    return word0.to(tl.int32), word1.to(tl.int32), alive
