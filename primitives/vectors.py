"""A caller's tensor as 8-byte items, whatever its alignment and count.

Item i holds elements [i * E, (i + 1) * E), E = 2 for float32 and 4 for 16-bit floats: the data of
one LL slot. The map from elements to items does not depend on alignment; only the width of the
loads and stores does. Elements past the end read as zero and are not written.
"""

import triton.language as tl

from worldline.primitives.jit import device_function
from worldline.primitives.memory_ops import address
from worldline.primitives.numerics import FLOAT32, UINT8


@device_function
def _half(pointer, index, count, mask):
    return tl.load(pointer + index, mask=mask & (index < count), other=0).to(tl.int32) & 0xFFFF


@device_function
def _bytes(pointer, first, count, mask):
    word = (first * 0).to(tl.int32)
    for place in tl.static_range(4):
        byte = tl.load(pointer + first + place, mask=mask & (first + place < count), other=0)
        word = word | ((byte.to(tl.int32) & 0xFF) << (8 * place))
    return word


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
    if WIDE:
        both = tl.load(address(base).to(tl.pointer_type(tl.int64)) + item, mask=mask, other=0)
        word0 = both.to(tl.int32)
        word1 = (both >> 32).to(tl.int32)
    elif DTYPE == FLOAT32:
        pointer = address(base).to(tl.pointer_type(tl.int32))
        first = item * 2
        word0 = tl.load(pointer + first, mask=mask & (first < count), other=0)
        word1 = tl.load(pointer + first + 1, mask=mask & (first + 1 < count), other=0)
    elif DTYPE == UINT8:
        pointer = address(base).to(tl.pointer_type(tl.int8))
        word0 = _bytes(pointer, item * 8, count, mask)
        word1 = _bytes(pointer, item * 8 + 4, count, mask)
    else:
        pointer = address(base).to(tl.pointer_type(tl.int16))
        first = item * 4
        word0 = _half(pointer, first, count, mask) | (_half(pointer, first + 1, count, mask) << 16)
        word1 = _half(pointer, first + 2, count, mask) | (
            _half(pointer, first + 3, count, mask) << 16
        )
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
    if WIDE:
        both = (word0.to(tl.int64) & 0xFFFFFFFF) | (word1.to(tl.int64) << 32)
        tl.store(address(base).to(tl.pointer_type(tl.int64)) + item, both, mask=mask)
    elif DTYPE == FLOAT32:
        pointer = address(base).to(tl.pointer_type(tl.int32))
        first = item * 2
        tl.store(pointer + first, word0, mask=mask & (first < count))
        tl.store(pointer + first + 1, word1, mask=mask & (first + 1 < count))
    elif DTYPE == UINT8:
        pointer = address(base).to(tl.pointer_type(tl.int8))
        for place in tl.static_range(8):
            at = item * 8 + place
            word = word0 if place < 4 else word1
            byte = (word >> (8 * (place % 4))).to(tl.int8)
            tl.store(pointer + at, byte, mask=mask & (at < count))
    else:
        pointer = address(base).to(tl.pointer_type(tl.int16))
        first = item * 4
        tl.store(pointer + first, word0.to(tl.int16), mask=mask & (first < count))
        tl.store(pointer + first + 1, (word0 >> 16).to(tl.int16), mask=mask & (first + 1 < count))
        tl.store(pointer + first + 2, word1.to(tl.int16), mask=mask & (first + 2 < count))
        tl.store(pointer + first + 3, (word1 >> 16).to(tl.int16), mask=mask & (first + 3 < count))
