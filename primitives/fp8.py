"""Floats of 8 bits to and from float32, bit for bit as torch converts them; twin of fp8.cuh.

Either type is a part of float16's range: e5m2 is its upper byte, e4m3 its bits moved by one, with
an exponent that counts from elsewhere. e4m3 has one NaN of each sign in place of infinities, which
is what overflows.
"""

import triton.language as tl

from worldline.primitives.jit import device_function

_NAN = tl.constexpr(0x7F)
_NAN32 = tl.constexpr(0x7FFFFFFF)
_INFINITY = tl.constexpr(0x7C)
_INFINITY32 = tl.constexpr(0x7F800000)
_464 = tl.constexpr(0x43E80000)
_61440 = tl.constexpr(0x47700000)


@device_function
def e5m2_to_float(byte):
    """Widen codes, int32 of 0 to 255, to float32."""
    return (byte << 8).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)


@device_function
def e4m3_to_float(byte):
    """Widen codes, int32 of 0 to 255, to float32."""
    half = (((byte & 0x80) << 8) | ((byte & 0x7F) << 7)).to(tl.int16)
    value = half.to(tl.float16, bitcast=True).to(tl.float32) * 256.0
    bits = tl.where((byte & 0x7F) == _NAN, _NAN32, value.to(tl.int32, bitcast=True))
    return bits.to(tl.float32, bitcast=True)


@device_function
def _to_few_bits(rest, mantissa: tl.constexpr, bias: tl.constexpr):
    """Round magnitudes to nearest even, to so many bits and an exponent that counts from -bias."""
    dropped: tl.constexpr = 23 - mantissa
    least: tl.constexpr = (127 - bias + 1) << 23
    # Of so large a sum, the last bit is the last of a subnormal.
    magic: tl.constexpr = (127 - bias + 1 + dropped) << 23
    large: tl.constexpr = 2.0 ** (dropped + 1 - bias)
    small = (rest.to(tl.float32, bitcast=True) + large).to(tl.int32, bitcast=True) - magic
    half: tl.constexpr = (1 << (dropped - 1)) - 1 - ((127 - bias) << 23)
    rounded = (rest + half + ((rest >> dropped) & 1)) >> dropped
    return tl.where(rest < least, small, rounded)


@device_function
def float_to_e4m3(value):
    """Round float32 to codes, int32 of 0 to 255; more than 464 gives NaN."""
    bits = value.to(tl.int32, bitcast=True)
    rest = bits & 0x7FFFFFFF
    return tl.where(rest > _464, _NAN, ((bits >> 24) & 0x80) | _to_few_bits(rest, 3, 7))


@device_function
def float_to_e5m2(value):
    """Round float32 to codes, int32 of 0 to 255; from 61440 on infinity."""
    bits = value.to(tl.int32, bitcast=True)
    rest = bits & 0x7FFFFFFF
    number = tl.where(rest >= _61440, _INFINITY, _to_few_bits(rest, 2, 15))
    return tl.where(rest > _INFINITY32, _NAN, ((bits >> 24) & 0x80) | number)
