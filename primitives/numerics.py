"""Sums in rank order with a float32 accumulator, rounded once, in words of 32 bits.

A 32-bit word carries one float32 or two 16-bit floats. The accumulator is a tuple of float32
blocks: two for float32 data (a slot is two words), four for float16 and bfloat16. It starts as rank
0's values, never as zero, so that a sum of -0.0 stays -0.0.

NaN results have one pattern per dtype, the one that NVIDIA's adders and converters give:
0x7fffffff, 0x7fff (float16) and 0x7fff (bfloat16).

bfloat16 conversions in the interpreter are integer code: Triton 3.6's interpreter truncates, turns
the NaN 0x7f81 into infinity and corrupts subnormals.
"""

import triton.language as tl

from worldline.primitives.jit import INTERPRETED, device_function

FLOAT32 = tl.constexpr(0)
FLOAT16 = tl.constexpr(1)
BFLOAT16 = tl.constexpr(2)
UINT8 = tl.constexpr(7)

_NAN32 = tl.constexpr(0x7FFFFFFF)
_NAN16 = tl.constexpr(0x7FFF)
_NAN16_PAIR = tl.constexpr(0x7FFF7FFF)


@device_function
def elements_per_slot(DTYPE: tl.constexpr):
    """Count the elements that the two data words of a slot carry."""
    return 2 if DTYPE == FLOAT32 else 4


@device_function
def nan_word(DTYPE: tl.constexpr):
    """Return a 32-bit word of canonical NaN."""
    return _NAN32 if DTYPE == FLOAT32 else _NAN16_PAIR


@device_function
def _low(word, DTYPE: tl.constexpr):
    if DTYPE == FLOAT16:
        value = (word & 0xFFFF).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    else:
        value = (word << 16).to(tl.float32, bitcast=True)
    return value


@device_function
def _high(word, DTYPE: tl.constexpr):
    if DTYPE == FLOAT16:
        value = (word >> 16).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    else:
        value = ((word >> 16) << 16).to(tl.float32, bitcast=True)
    return value


@device_function
def unpack(word0, word1, DTYPE: tl.constexpr):
    """Turn two data words into a tuple of float32 blocks, in order of elements."""
    if DTYPE == FLOAT32:
        return word0.to(tl.float32, bitcast=True), word1.to(tl.float32, bitcast=True)
    else:
        return (
            _low(word0, DTYPE),
            _high(word0, DTYPE),
            _low(word1, DTYPE),
            _high(word1, DTYPE),
        )


@device_function
def add(accumulator, values, DTYPE: tl.constexpr):
    """Add one rank's values to the accumulator."""
    if DTYPE == FLOAT32:
        return accumulator[0] + values[0], accumulator[1] + values[1]
    else:
        return (
            accumulator[0] + values[0],
            accumulator[1] + values[1],
            accumulator[2] + values[2],
            accumulator[3] + values[3],
        )


@device_function
def _round16(value, DTYPE: tl.constexpr):
    """Round to nearest even; the result's 16 bits in the low half of an int32."""
    if DTYPE == FLOAT16:
        bits = value.to(tl.float16).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
    elif INTERPRETED:
        whole = value.to(tl.int32, bitcast=True)
        bits = ((whole + 0x7FFF + ((whole >> 16) & 1)) >> 16) & 0xFFFF
    else:
        bits = value.to(tl.bfloat16).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
    return tl.where(value != value, _NAN16, bits)


@device_function
def pack(accumulator, DTYPE: tl.constexpr):
    """Round the accumulator once and return the two data words."""
    if DTYPE == FLOAT32:
        first, second = accumulator[0], accumulator[1]
        word0 = tl.where(first != first, _NAN32, first.to(tl.int32, bitcast=True))
        word1 = tl.where(second != second, _NAN32, second.to(tl.int32, bitcast=True))
    else:
        word0 = _round16(accumulator[0], DTYPE) | (_round16(accumulator[1], DTYPE) << 16)
        word1 = _round16(accumulator[2], DTYPE) | (_round16(accumulator[3], DTYPE) << 16)
    return word0, word1
