"""Reductions in rank order in an accumulator, rounded once, in words of 32 bits.

An item is two words: one element of 8 bytes, two of 4, four of 2 or eight of 1. The accumulator is
a tuple of blocks, one to an element: float32, of float64 that, of integers int32 and of those that
need more int64. It starts as rank 0's values, never as zero, so that a sum of -0.0 stays -0.0.

NaN results have one pattern per dtype: all ones but for the sign, of 8-bit floats too. Integers
wrap, and their averages are rounded towards zero.

Conversions of bfloat16 in the interpreter are integer code: Triton 3.6's interpreter truncates,
turns the NaN 0x7f81 into infinity and corrupts subnormals. Those of 8-bit floats are so everywhere.
"""

import triton.language as tl
from triton import constexpr_function

from worldline.primitives.fp8 import e4m3_to_float, e5m2_to_float, float_to_e4m3, float_to_e5m2
from worldline.primitives.jit import INTERPRETED, device_function
from worldline.primitives.memory_ops import address

FLOAT32 = tl.constexpr(0)
FLOAT16 = tl.constexpr(1)
BFLOAT16 = tl.constexpr(2)
FLOAT64 = tl.constexpr(3)
FLOAT8_E4M3 = tl.constexpr(4)
FLOAT8_E5M2 = tl.constexpr(5)
INT8 = tl.constexpr(6)
UINT8 = tl.constexpr(7)
INT32 = tl.constexpr(8)
INT64 = tl.constexpr(9)

SUM = tl.constexpr(0)
AVG = tl.constexpr(1)
MIN = tl.constexpr(2)
MAX = tl.constexpr(3)
PROD = tl.constexpr(4)
SCALED_SUM = tl.constexpr(5)

_NAN64 = tl.constexpr(0x7FFFFFFFFFFFFFFF)
_NAN32 = tl.constexpr(0x7FFFFFFF)
_NAN16 = tl.constexpr(0x7FFF)


@constexpr_function
def bytes_of(DTYPE):
    """Count the bytes of an element, a constant."""
    return (4, 2, 2, 8, 1, 1, 1, 1, 4, 8)[DTYPE]


@constexpr_function
def elements_per_slot(DTYPE):
    """Count the elements that the two data words of a slot carry, a constant."""
    return 8 // bytes_of(DTYPE)


@constexpr_function
def spoilt_word(index, DTYPE):
    """Return the first or second 32-bit word of a failed output: NaN, 0 where there is none."""
    if DTYPE >= INT8:
        return 0
    words = {1: 0x7F7F7F7F, 2: 0x7FFF7FFF, 4: 0x7FFFFFFF, 8: 0x7FFFFFFF if index else -1}
    return words[bytes_of(DTYPE)]


@device_function
def _half(word, upper: tl.constexpr, DTYPE: tl.constexpr):
    if DTYPE == FLOAT16:
        bits = word >> 16 if upper else word & 0xFFFF
        value = bits.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    else:
        bits = (word >> 16) << 16 if upper else word << 16
        value = bits.to(tl.float32, bitcast=True)
    return value


@device_function
def _byte(word, index: tl.constexpr, DTYPE: tl.constexpr):
    if DTYPE == INT8:
        value = (word << (24 - 8 * index)) >> 24
    else:
        byte = (word >> (8 * index)) & 0xFF
        if DTYPE == FLOAT8_E4M3:
            value = e4m3_to_float(byte)
        elif DTYPE == FLOAT8_E5M2:
            value = e5m2_to_float(byte)
        else:
            value = byte
    return value


@device_function
def _numbers(word0, word1, DTYPE: tl.constexpr):
    """Turn two data words into a tuple of numbers, in order of elements."""
    if bytes_of(DTYPE) == 8:
        both = (word0.to(tl.int64) & 0xFFFFFFFF) | (word1.to(tl.int64) << 32)
        return (both.to(tl.float64, bitcast=True) if DTYPE == FLOAT64 else both,)
    elif DTYPE == FLOAT32:
        return word0.to(tl.float32, bitcast=True), word1.to(tl.float32, bitcast=True)
    elif DTYPE == INT32:
        return word0, word1
    elif bytes_of(DTYPE) == 2:
        return (
            _half(word0, False, DTYPE),
            _half(word0, True, DTYPE),
            _half(word1, False, DTYPE),
            _half(word1, True, DTYPE),
        )
    else:
        return (
            _byte(word0, 0, DTYPE),
            _byte(word0, 1, DTYPE),
            _byte(word0, 2, DTYPE),
            _byte(word0, 3, DTYPE),
            _byte(word1, 0, DTYPE),
            _byte(word1, 1, DTYPE),
            _byte(word1, 2, DTYPE),
            _byte(word1, 3, DTYPE),
        )


@device_function
def _appended(blocks, block):
    return blocks + (block,)  # noqa: RUF005 (Triton knows no stars in tuples)


@device_function
def unpack(word0, word1, scale, DTYPE: tl.constexpr, OP: tl.constexpr):
    """Turn a rank's two data words into its part of a reduction, a tuple of blocks.

    Parameters
    ----------
    word0, word1 : block of int32
        The data.
    scale : int64
        The bits of a float64, by which a scaled sum multiplies.
    DTYPE, OP : constexpr
        Codes of a dtype and an operation.
    """
    values = _numbers(word0, word1, DTYPE)
    if OP == SCALED_SUM:
        factor = address(scale).to(tl.float64, bitcast=True)
        if DTYPE != FLOAT64:
            factor = factor.to(tl.float32)
        scaled = (values[0] * factor,)
        for i in tl.static_range(1, len(values)):
            scaled = _appended(scaled, values[i] * factor)
        values = scaled
    elif (OP == AVG) & (DTYPE == INT32):
        # An average needs the exact sum.
        values = (values[0].to(tl.int64), values[1].to(tl.int64))
    return values


@device_function
def _folded(total, more, OP: tl.constexpr):
    if OP == MIN:
        result = tl.where((more < total) | (more != more), more, total)
    elif OP == MAX:
        result = tl.where((more > total) | (more != more), more, total)
    elif OP == PROD:
        result = total * more
    else:
        result = total + more
    return result


@device_function
def fold(accumulator, values, OP: tl.constexpr):
    """Fold the next rank's part into the accumulator.

    Of equal ones, both zeros too, the earlier rank's stays; a NaN stays in any case.
    """
    result = (_folded(accumulator[0], values[0], OP),)
    for i in tl.static_range(1, len(values)):
        result = _appended(result, _folded(accumulator[i], values[i], OP))
    return result


@device_function
def _average(value, WORLD: tl.constexpr, DTYPE: tl.constexpr):
    """Divide truly. By a power of two it is a product, which rounds alike."""
    if DTYPE >= INT8:
        result = value // WORLD
    elif (WORLD & (WORLD - 1)) == 0:
        result = value * (1.0 / WORLD)
    elif DTYPE == FLOAT64:
        result = value / (WORLD * 1.0)
    else:
        result = tl.div_rn(value, WORLD * 1.0)
    return result


@device_function
def _rounded(value, WORLD: tl.constexpr, DTYPE: tl.constexpr, OP: tl.constexpr):
    """Return an element's bits in the low part of an int32; those of 8 bytes as an int64."""
    if OP == AVG:
        value = _average(value, WORLD, DTYPE)
    if DTYPE == FLOAT64:
        bits = tl.where(value != value, _NAN64, value.to(tl.int64, bitcast=True))
    elif DTYPE == FLOAT32:
        bits = tl.where(value != value, _NAN32, value.to(tl.int32, bitcast=True))
    elif DTYPE == FLOAT16:
        half = value.to(tl.float16).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
        bits = tl.where(value != value, _NAN16, half)
    elif DTYPE == BFLOAT16:
        if INTERPRETED:
            whole = value.to(tl.int32, bitcast=True)
            half = ((whole + 0x7FFF + ((whole >> 16) & 1)) >> 16) & 0xFFFF
        else:
            half = value.to(tl.bfloat16).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
        bits = tl.where(value != value, _NAN16, half)
    elif DTYPE == FLOAT8_E4M3:
        bits = float_to_e4m3(value)
    elif DTYPE == FLOAT8_E5M2:
        bits = float_to_e5m2(value)
    elif DTYPE == INT64:
        bits = value
    else:
        bits = value.to(tl.int32) if DTYPE == INT32 else value & 0xFF
    return bits


@device_function
def pack(accumulator, WORLD: tl.constexpr, DTYPE: tl.constexpr, OP: tl.constexpr):
    """Round the accumulator of so many ranks once and return the two data words."""
    first = _rounded(accumulator[0], WORLD, DTYPE, OP)
    if bytes_of(DTYPE) == 8:
        word0, word1 = first.to(tl.int32), (first >> 32).to(tl.int32)
    else:
        size: tl.constexpr = bytes_of(DTYPE)
        word0, word1 = first, _rounded(accumulator[4 // size], WORLD, DTYPE, OP)
        for i in tl.static_range(1, 4 // size):
            low = _rounded(accumulator[i], WORLD, DTYPE, OP)
            high = _rounded(accumulator[4 // size + i], WORLD, DTYPE, OP)
            word0, word1 = word0 | (low << (8 * size * i)), word1 | (high << (8 * size * i))
    return word0, word1
