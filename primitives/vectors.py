"""A caller's tensor as 8-byte items, whatever its alignment and count.

Item i holds elements [i * E, (i + 1) * E), E = 1, 2, 4 or 8 of 8, 4, 2 or 1 bytes: the data of one
LL slot. The map from elements to items does not depend on alignment; only the width of the
loads and stores does. Elements past the end read as zero and are not written.
"""

import triton.language as tl

from worldline.primitives.jit import device_function
from worldline.primitives.memory_ops import address
from worldline.primitives.numerics import bytes_of


@device_function
def _small_elements(base, size: tl.constexpr):
    """Return a pointer to elements of one or two bytes."""
    return address(base).to(tl.pointer_type(tl.int8 if size == 1 else tl.int16))


@device_function
def _load_word(pointer, first, count, mask, size: tl.constexpr):
    """Load a word of small elements, one after another."""
    ones: tl.constexpr = (1 << (8 * size)) - 1
    word = tl.load(pointer + first, mask=mask & (first < count), other=0).to(tl.int32) & ones
    for i in tl.static_range(1, 4 // size):
        index = first + i
        more = tl.load(pointer + index, mask=mask & (index < count), other=0).to(tl.int32) & ones
        word = word | (more << (8 * size * i))
    return word


@device_function
def _store_word(pointer, first, word, count, mask, size: tl.constexpr):
    """Store a word of small elements, one after another."""
    for i in tl.static_range(4 // size):
        index, element = first + i, word >> (8 * size * i)
        # The conversion drops the elements above.
        small = element.to(tl.int8) if size == 1 else element.to(tl.int16)
        tl.store(pointer + index, small, mask=mask & (index < count))


@device_function
def load_item(base, item, count, mask, DTYPE: tl.constexpr, WIDE: tl.constexpr):
    """Load items; returns their two 32-bit data words.

    Parameters
    ----------
    base : int64
        Address of the tensor's first element.
    item : block of int64
        Item indices.
    count : int
        Elements in the tensor.
    mask : block of bool
        Items to load; others read as zero.
    DTYPE : constexpr
        A code of :mod:`worldline.primitives.numerics`.
    WIDE : constexpr
        1 where the address is 8-byte aligned and no item is partial.
    """
    size: tl.constexpr = bytes_of(DTYPE)
    # An element of 8 bytes is an item.
    if WIDE or size == 8:
        both = tl.load(address(base).to(tl.pointer_type(tl.int64)) + item, mask=mask, other=0)
        word0 = both.to(tl.int32)
        word1 = (both >> 32).to(tl.int32)
    elif size == 4:
        pointer = address(base).to(tl.pointer_type(tl.int32))
        first = item * 2
        word0 = tl.load(pointer + first, mask=mask & (first < count), other=0)
        word1 = tl.load(pointer + first + 1, mask=mask & (first + 1 < count), other=0)
    else:
        pointer = _small_elements(base, size)
        first = item * (8 // size)
        word0 = _load_word(pointer, first, count, mask, size)
        word1 = _load_word(pointer, first + 4 // size, count, mask, size)
    return word0, word1


@device_function
def load_items(base, pair, items, count, mask, DTYPE: tl.constexpr, WIDE: tl.constexpr):
    """Load pairs of items: the four data words of a slot of 16 bytes.

    Parameters
    ----------
    pair : block of int64
        Pair p is the items 2 p and 2 p + 1.
    items : int
        Items in the tensor; one past the end reads as zero.
    base, count, mask, DTYPE, WIDE
        As for :func:`load_item`.
    """
    item = pair * 2
    word0, word1 = load_item(base, item, count, mask, DTYPE, WIDE)
    word2, word3 = load_item(base, item + 1, count, mask & (item + 1 < items), DTYPE, WIDE)
    return word0, word1, word2, word3


@device_function
def store_items(base, pair, words, items, count, mask, DTYPE: tl.constexpr, WIDE: tl.constexpr):
    """Store pairs of items' four data words; parameters as for :func:`load_items`."""
    item = pair * 2
    store_item(base, item, words[0], words[1], count, mask, DTYPE, WIDE)
    rest = mask & (item + 1 < items)
    store_item(base, item + 1, words[2], words[3], count, rest, DTYPE, WIDE)


@device_function
def items_of_share(owner, items, share, index, first):
    """Say which of the ``index``-th items of a share hold data, and which are exchanged.

    The ``first`` of a block is exchanged even if the share does not hold it: as a token.
    """
    size = tl.minimum(share, items - owner * share)
    valid = index < size
    return valid, valid | (index == first)


@device_function
def store_item(base, item, word0, word1, count, mask, DTYPE: tl.constexpr, WIDE: tl.constexpr):
    """Store items' two 32-bit data words; parameters as for :func:`load_item`."""
    size: tl.constexpr = bytes_of(DTYPE)
    if WIDE or size == 8:
        both = (word0.to(tl.int64) & 0xFFFFFFFF) | (word1.to(tl.int64) << 32)
        tl.store(address(base).to(tl.pointer_type(tl.int64)) + item, both, mask=mask)
    elif size == 4:
        pointer = address(base).to(tl.pointer_type(tl.int32))
        first = item * 2
        tl.store(pointer + first, word0, mask=mask & (first < count))
        tl.store(pointer + first + 1, word1, mask=mask & (first + 1 < count))
    else:
        pointer = _small_elements(base, size)
        first = item * (8 // size)
        _store_word(pointer, first, word0, count, mask, size)
        _store_word(pointer, first + 4 // size, word1, count, mask, size)
