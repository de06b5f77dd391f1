"""Epochs in device memory, by a counter (:mod:`worldline.primitives.counters`), and their wrap.

Wrap
----
Epochs are 32-bit, odd ones use half 1 and even ones half 0. Zero is what empty memory holds, so it
is never an epoch: after 0xffffffff comes 2, which keeps the halves alternating. A slot far out in a
half may have kept its flag for a whole round of 2^32 and would then look fresh. So each of the last
two epochs before the wrap zeroes the half that its predecessor consumed: 0xfffffffe zeroes half 1,
0xffffffff half 0.

Every block zeroes its part before its first send of that epoch, behind a fence. A peer writes into
that half again only after it has received from every block of this rank in this epoch, hence
after the zeroing. This needs each block to exchange at least one slot with each peer in every
epoch, which is the rule for all LL kernels.
"""

import triton.language as tl

from worldline.primitives import layout
from worldline.primitives.counters import advance_words, load_word
from worldline.primitives.jit import device_function
from worldline.primitives.memory_ops import fence_system, store_pair

EPOCHS = tl.constexpr(layout.EPOCHS)
LL = tl.constexpr(layout.LL)
SLOT = tl.constexpr(layout.SLOT)

_BEFORE_LAST = tl.constexpr(-2)
_LAST = tl.constexpr(-1)
_FIRST_AFTER_WRAP = tl.constexpr(2)


@device_function
def begin_epoch(arena, block):
    """Return this launch's epoch, an int32 scalar.

    Parameters
    ----------
    arena : int64
        Base of the own arena.
    block : int32
        The program's index in the grid.
    """
    word = load_word(arena, EPOCHS, block)
    return tl.where(word == _LAST, _FIRST_AFTER_WRAP, word + 1)


@device_function
def advance_epoch(arena, block, grid, epoch):
    """Advance this block's words to this launch's epoch."""
    advance_words(arena, EPOCHS, block, grid, epoch)


@device_function
def clear_before_wrap(arena, epoch, block, grid, HALF: tl.constexpr, BLOCK: tl.constexpr):
    """In the last two epochs before the wrap, zero this block's part of the other half."""
    if (epoch == _BEFORE_LAST) | (epoch == _LAST):
        base = arena + LL + ((epoch + 1) & 1) * HALF
        lane = tl.arange(0, BLOCK)
        for start in range(block * BLOCK, HALF // SLOT, grid * BLOCK):
            slot = (start + lane).to(tl.int64)
            store_pair(base + slot * SLOT, slot * 0, slot * 0, slot < HALF // SLOT)
        # In this order: a thread's fence covers other threads' zeroes only after the barrier.
        tl.debug_barrier()
        fence_system(lane)
