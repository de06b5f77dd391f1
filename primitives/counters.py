"""Counters in device memory: one word per possible block.

Of a counter that every launch advances, block b reads word b once its predecessor has ended, and
then advances words b, b + grid, b + 2 * grid, and so on: every word, whatever the grid, and a fast
block never moves a word that a late block of the same launch has still to read, since words
b' < grid belong to block b' alone. Of a counter that blocks keep for themselves it moves its own.
"""

import triton.language as tl

from worldline.primitives import layout
from worldline.primitives.jit import device_function

MAX_BLOCKS = tl.constexpr(layout.MAX_BLOCKS)


@device_function
def load_word(arena, offset: tl.constexpr, block):
    """Return the block's word of the counter whose words start at ``offset``, an int32 scalar.

    Parameters
    ----------
    arena : int64
        Base of the own arena.
    offset : constexpr
        Where in an arena the words start.
    block : int32
        The program's index in the grid.
    """
    return tl.load((arena + offset).to(tl.pointer_type(tl.int32)) + block, volatile=True)


@device_function
def advance_words(arena, offset: tl.constexpr, block, grid, value):
    """Store ``value`` into this block's words; all threads share the work.

    Between sending and receiving, where the stores cost nothing: at the kernel's end its successor
    would wait for them.
    """
    # No thread may move the word before every thread has read it.
    tl.debug_barrier()
    word = block + grid * tl.arange(0, MAX_BLOCKS)
    pointer = (arena + offset).to(tl.pointer_type(tl.int32))
    tl.store(pointer + word, value + word * 0, mask=word < MAX_BLOCKS)


@device_function
def store_word(arena, offset: tl.constexpr, block, value):
    """Store ``value`` into this block's word alone."""
    # No thread may move the word before every thread has read it.
    tl.debug_barrier()
    tl.store((arena + offset).to(tl.pointer_type(tl.int32)) + block, value)
