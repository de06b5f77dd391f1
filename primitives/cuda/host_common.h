// What host_ops.h and any stand-in for it share: CUDA's words as C++ has them, and host twins of a
// GPU's float operations.
#pragma once
#include <cstring>

#define WL_DEVICE inline
#define WL_INLINE
#define WL_COLD inline
#define __grid_constant__
#define __global__

namespace worldline {

// Host threads run alone, and one takes a whole line.
constexpr int WARP = 1, LINE_LANES = 1;
struct Part {
  u64 v[16 / LINE_LANES];
};
inline bool line_all(bool x) { return x; }
inline bool warp_all(bool x) { return x; }
inline void warp_meets() {}
inline u64 line_first(u64 x) { return x; }
inline u64 warp_first(u64 x) { return x; }

inline float bits_to_float(u32 x) {
  float v;
  std::memcpy(&v, &x, 4);
  return v;
}
inline u32 float_to_bits(float x) {
  u32 v;
  std::memcpy(&v, &x, 4);
  return v;
}
inline double bits_to_double(u64 x) {
  double v;
  std::memcpy(&v, &x, 8);
  return v;
}
inline u64 double_to_bits(double x) {
  u64 v;
  std::memcpy(&v, &x, 8);
  return v;
}
// A CPU keeps a NaN's payload; a GPU's adder gives one pattern.
inline float add(float a, float b) {
  const float sum = a + b;
  return sum != sum ? bits_to_float(0x7fffffffu) : sum;
}
inline double add(double a, double b) { return a + b; }
inline float multiply(float a, float b) { return a * b; }
inline double multiply(double a, double b) { return a * b; }
inline float divide(float a, float b) { return a / b; }
inline double divide(double a, double b) { return a / b; }
inline float half_to_float(u16 x) {
  const u32 sign = u32(x & 0x8000u) << 16, exponent = x >> 10 & 31, mantissa = x & 0x3ffu;
  if (exponent == 31) return bits_to_float(sign | 0x7f800000u | mantissa << 13);
  if (exponent) return bits_to_float(sign | (exponent + 112) << 23 | mantissa << 13);
  const float value = float(mantissa) * 5.9604644775390625e-08f;  // 2^-24
  return sign ? -value : value;
}
constexpr bool WIDENS_E4M3 = false;
inline u16 e4m3_to_half(u16) { return 0; }
inline u16 float_to_half(float x) {
  const u32 bits = float_to_bits(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return 0x7fff;
  if (rest >= 0x47800000u) return u16(sign | 0x7c00u);
  if (rest < 0x38800000u) {  // subnormal: the addition rounds to nearest even
    const float magic = bits_to_float(rest) + 0.5f;
    return u16(sign | (float_to_bits(magic) - 0x3f000000u));
  }
  const u32 rounded = rest + 0xfffu + (rest >> 13 & 1);
  return u16(sign | (rounded - 0x38000000u) >> 13);
}
inline u16 float_to_bfloat(float x) {
  const u32 bits = float_to_bits(x);
  return x != x ? 0x7fff : u16((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
inline u32 floats_to_halves(float low, float high) {
  return u32(float_to_half(high)) << 16 | float_to_half(low);
}
inline u32 floats_to_bfloats(float low, float high) {
  return u32(float_to_bfloat(high)) << 16 | float_to_bfloat(low);
}

}  // namespace worldline
