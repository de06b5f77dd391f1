// Floats of 8 bits to and from float, bit for bit as torch converts them; on every GPU alike.
//
// Either type is a part of float16's range: e5m2 is its upper byte, e4m3 its bits moved by one, with
// an exponent that counts from elsewhere. e4m3 has one NaN of each sign in place of infinities, which
// is what overflows.
#pragma once
#include "ops.cuh"

namespace worldline {

constexpr u32 FP8_NAN = 0x7f;

WL_DEVICE float e5m2_to_float(u32 x) { return half_to_float(u16(x << 8)); }

WL_DEVICE float e4m3_to_float(u32 x) {
  if constexpr (WIDENS_E4M3) return half_to_float(e4m3_to_half(u16(x)));
  const float value = multiply(half_to_float(u16((x & 0x80) << 8 | (x & 0x7f) << 7)), 256.0f);
  return (x & 0x7f) == FP8_NAN ? bits_to_float(0x7fffffffu) : value;
}

// Round to nearest even a float's magnitude, which is not NaN, to MANTISSA bits and an exponent that
// counts from -BIAS; what is too large gives a code of more than seven bits.
template <int MANTISSA, int BIAS>
WL_DEVICE u32 to_few_bits(u32 rest) {
  constexpr int DROPPED = 23 - MANTISSA;
  constexpr u32 LEAST = u32(127 - BIAS + 1) << 23;  // the least that is not subnormal
  // Of so large a sum, the last bit is the last of a subnormal.
  constexpr u32 MAGIC = u32(127 - BIAS + 1 + DROPPED) << 23;
  const u32 small = float_to_bits(add(bits_to_float(rest), bits_to_float(MAGIC))) - MAGIC;
  const u32 rounded = rest + ((1u << (DROPPED - 1)) - 1) + (rest >> DROPPED & 1);
  return rest < LEAST ? small : (rounded - (u32(127 - BIAS) << 23)) >> DROPPED;
}

WL_DEVICE u32 float_to_e4m3(float x) {
  const u32 bits = float_to_bits(x), rest = bits & 0x7fffffffu;
  // More than 464 rounds to more than 448, which is the largest number.
  return rest > 0x43e80000u ? FP8_NAN : (bits >> 24 & 0x80) | to_few_bits<3, 7>(rest);
}

WL_DEVICE u32 float_to_e5m2(float x) {
  const u32 bits = float_to_bits(x), rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return FP8_NAN;
  // From 61440 on it rounds to 65536 and more: infinity.
  return (bits >> 24 & 0x80) | (rest >= 0x47700000u ? 0x7c : to_few_bits<2, 15>(rest));
}

}  // namespace worldline
