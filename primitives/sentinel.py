r"""Sentinel: data at full width, in slots that are empty until it comes; no barrier.

Slot
----
A slot is 16 bytes, all of them data: two 64-bit words. While it is empty both are all ones. It is
written by one relaxed system-scope vector store and polled by such loads until neither word is all
ones: a vector access is atomic per 64-bit element and the architecture promises no more, so each
word must prove itself. The comparison is of bits, never of floats.

::

    byte   0                 8                 16
           | data0  | data1  | data2  | data3  |

A word of data that is all ones would look empty. In every float type such a word is NaN through and
through, so its lowest element's sign is changed before it is sent: it stays NaN, whose sum is NaN
of the one pattern, and every other word keeps its bits. Integers have no pattern to spare, and a
pure move has to keep every bit: neither uses a sentinel.

Channels and passes
-------------------
Block b of a rank exchanges with block b of every peer, in slots of its own, its *channel*. It works
in *passes*: in each it sends some items to every peer, then receives and adds as many. So a launch
takes any count, and grids may change from call to call.

The region holds three *stages*, each with a channel for every block that a launch may have. Pass k
of a block uses stage k mod 3. Its own counter chooses, one word for each possible block, moved by
this block alone: the count in steps of four, and below it, in two bits, the stage, which goes round
by itself (2^30, at which the count wraps, is no multiple of three). Blocks of equal index have
equal counts on all ranks, since these launch the same grids on the same counts.

Who writes what
---------------
A slot of rank r is filled by exactly one peer in a pass, and every slot that is filled is also
polled by r in that pass. As soon as r has read it, it *re-arms* it: stores all ones. The thread
that has read it does so, which orders the two; no other may poll it in that pass. So nothing
depends on how far earlier passes went. Where an operation ends on a dead lane, filled slots remain:
recovery empties them all.

Why a slot may be filled again without a barrier
------------------------------------------------
Block b of rank r reads and re-arms a slot in pass k; block b of peer q fills it again in pass
k + 3. In between:

1. r's pass k ends, by a barrier of the block or the kernel's end, which order its re-arms before
   what it does next. For r's own device: what a peer may see of them, neither says.
2. In pass k + 1, r releases a *token* to every peer, whoever will fill which slot next
   (:mod:`worldline.primitives.signals`): it covers what r re-armed before.
3. In pass k + 2, q waits for that token: an acquire. It has come in the meantime, as r's data of
   pass k + 1 has.
4. q's pass k + 2 ends, and q fills the slot in pass k + 3.

Relaxed in place of 2, a late re-arm could overwrite what q has sent, and r would wait for ever.
With two stages q would have to wait for the token before it sends, on the critical path.

A release takes as long as data does, so of a launch of one pass block 0 tells for all: the end of
the kernels before orders every block's re-arms before its token. If the launch before was one pass,
too, it waits for the peers' tokens of that one: what the launches before that re-armed is empty,
which every block filled two launches ago at the latest. Else it waits for those of the same launch,
since other blocks' tokens in the launch before were their own. Of a launch of several passes each
block tells in every pass, and the first pass waits for its own token, for there may be none of the
launch before, the others for that of the pass before. Which of the two a launch is, all ranks know;
block 0 keeps in a word which one the last was.

A token is compared by the sign of a difference, and must not fall back by half of its range: every
TOKEN_REFRESH passes a block tells in any launch.

Memory order
------------
Between slots none is needed: each word is its own proof.

Limits
------
Floats alone; the one colliding word is canonicalised. In the interpreter, where a rank's programs
run one after another, program b may wait for the peers' program b only.
"""

import triton.language as tl

from worldline.primitives import layout
from worldline.primitives.counters import load_word, store_word
from worldline.primitives.deadline import clock_ns, give_way, overdue, report_timeout
from worldline.primitives.jit import device_function
from worldline.primitives.memory_ops import any_true, pause, poll_filled, store_pair
from worldline.primitives.numerics import FLOAT64, bytes_of
from worldline.primitives.signals import in_steps, send_tokens, wait_tokens

STAGES = tl.constexpr(layout.STAGES)
SEVERAL = tl.constexpr(layout.SEVERAL)
TOKEN_REFRESH = tl.constexpr(layout.TOKEN_REFRESH)
_STEP = tl.constexpr(4)
_EMPTY = tl.constexpr(-1)
_NO_SLOT = tl.constexpr(0x7FFFFFFF)


@device_function
def next_stage(word):
    """Return the count and stage of the pass after that of ``word``, an int32 scalar."""
    return tl.where((word & 3) == 2, word + 2, word + 5)


@device_function
def begin_stage(arena, block):
    """Return the count and stage of this block's first pass: the stage is its two low bits.

    Parameters
    ----------
    arena : int64
        Base of the own arena.
    block : int32
        The program's index in the grid.
    """
    return next_stage(load_word(arena, STAGES, block))


@device_function
def source_index(rank: tl.constexpr, at: tl.constexpr):
    """Return which of the peers of rank ``at`` another is: a channel has slots for peers alone."""
    return rank - (rank > at)


@device_function
def came_after_several(arena, block):
    """Say whether the launch before was one of several passes: on program 0, elsewhere always."""
    word = (arena + SEVERAL).to(tl.pointer_type(tl.int32))
    return tl.load(word, mask=block == 0, other=1, volatile=True) != 0


@device_function
def keep_stage(arena, block, count, several):
    """Keep a pass's count and stage as this block's last, and what the launch is."""
    store_word(arena, STAGES, block, count)
    word = (arena + SEVERAL).to(tl.pointer_type(tl.int32))
    tl.store(word, several.to(tl.int32), mask=block == 0)


@device_function
def exchanges_tokens(block, count, several):
    """Say whether this block tells and hears in a launch that begins with pass ``count``.

    Parameters
    ----------
    block : int32
        The program's index in the grid.
    count : int32
        The first pass's count.
    several : bool
        Whether any program of the launch has more than one pass.
    """
    return several | (block == 0) | (((count >> 2) & (TOKEN_REFRESH - 1)) == 0)


@device_function
def first_heard(count, several, after_several):
    """Return which token a launch's first pass waits for: its own, or that of the launch before."""
    return (count & ~3) - tl.where(several | after_several, 0, _STEP)


@device_function
def tell_emptied(block, count, alive, table, RANK: tl.constexpr, WORLD: tl.constexpr):
    """Tell this block's peers, in pass ``count``, that all of the passes before is empty again."""
    send_tokens(block, count & ~3, alive, table, RANK, WORLD)


@device_function
def hear_emptied(
    block,
    first,
    heard,
    count,
    alive,
    arena,
    table,
    limit_ns,
    operation,
    RANK: tl.constexpr,
    WORLD: tl.constexpr,
):
    """Wait for what the peers told in the pass before ``count``, in pass ``first`` for ``heard``.

    Returns ``alive``.
    """
    told = tl.where(count == first, heard, (count & ~3) - _STEP)
    return wait_tokens(_STEP, block, told, alive, arena, table, limit_ns, operation, RANK, WORLD)


@device_function
def _sendable(low, high, DTYPE: tl.constexpr):
    word = (low.to(tl.int64) & 0xFFFFFFFF) | (high.to(tl.int64) << 32)
    other: tl.constexpr = (
        -1 - (1 << (8 * bytes_of(DTYPE) - 1)) if DTYPE != FLOAT64 else 0x7FFFFFFFFFFFFFFF
    )
    return tl.where(word == _EMPTY, other, word)


@device_function
def sentinel_send(address, data0, data1, data2, data3, mask, DTYPE: tl.constexpr):
    """Store slots of four data words where ``mask`` holds; 64 bits all ones as another NaN.

    Parameters
    ----------
    address : block of int64
        The slots, in a peer's arena; multiples of 16.
    data0, data1, data2, data3 : block of int32
        Their data.
    mask : block of bool
        Slots to write.
    DTYPE : constexpr
        A code of :mod:`worldline.primitives.numerics`.
    """
    store_pair(address, _sendable(data0, data1, DTYPE), _sendable(data2, data3, DTYPE), mask)


@device_function
def _missing(word0, word1, mask):
    return mask & ((word0 == _EMPTY) | (word1 == _EMPTY))


@device_function
def sentinel_recv(
    address,
    slot,
    count,
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
    """Wait for slots from ``peer``, and re-arm them.

    Parameters
    ----------
    address : block of int64
        The slots, in the own arena.
    slot : block of int64
        Their indices, for the record.
    count : int32
        This pass's count, for the record.
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
    data0, data1, data2, data3 : block of int32
        The data; meaningless where the wait failed.
    alive : int32
        0 if the wait failed: output must then be NaN, and nothing may be sent on.
    """
    wanted = mask & (alive != 0)
    word0, word1 = poll_filled(address, wanted)
    missing = _missing(word0, word1, wanted)
    waiting = any_true(missing)
    if waiting != 0:
        source = count * 0 + peer
        started = clock_ns()
        while waiting != 0:
            pause()
            word0, word1 = poll_filled(address, wanted)
            missing = _missing(word0, word1, wanted)
            waiting = any_true(missing)
            if waiting != 0:
                verdict = overdue(arena, source, started, limit_ns)
                if verdict != 0:
                    if verdict == 1:
                        number = tl.where(missing, slot.to(tl.int32), _NO_SLOT)
                        first = tl.min(number, axis=0)
                        report_timeout(
                            arena,
                            table,
                            operation,
                            in_steps(count, _STEP),
                            source,
                            first,
                            in_steps(count, _STEP),
                            count * 0 - 1,
                            RANK,
                            WORLD,
                        )
                    else:
                        give_way(arena)
                    alive = alive * 0
                    waiting = waiting * 0
    empty = word0 * 0 + _EMPTY
    store_pair(address, empty, empty, wanted & (alive != 0))
    data0, data1 = word0.to(tl.int32), (word0 >> 32).to(tl.int32)
    return data0, data1, word1.to(tl.int32), (word1 >> 32).to(tl.int32), alive
