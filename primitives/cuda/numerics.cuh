// Sums in rank order with a float32 accumulator, rounded once; twin of numerics.py.
//
// NaN results have one pattern per dtype, 0x7fffffff and 0x7fff, which is what NVIDIA's adders and
// converters give; one rank adds nothing, so its NaN is made canonical here.
#pragma once
#include "ops.cuh"

namespace worldline {

enum Dtype { FLOAT32 = 0, FLOAT16 = 1, BFLOAT16 = 2 };

struct Words {
  u32 first, second;
};

template <int DTYPE>
struct Values {
  float v[DTYPE == FLOAT32 ? 2 : 4];
};

template <int DTYPE>
WL_DEVICE Values<DTYPE> unpack(Words w) {
  if constexpr (DTYPE == FLOAT32) {
    return {bits_to_float(w.first), bits_to_float(w.second)};
  } else if constexpr (DTYPE == FLOAT16) {
    return {half_to_float(u16(w.first)), half_to_float(u16(w.first >> 16)),
            half_to_float(u16(w.second)), half_to_float(u16(w.second >> 16))};
  } else {
    return {bits_to_float(w.first << 16), bits_to_float(w.first & 0xffff0000u),
            bits_to_float(w.second << 16), bits_to_float(w.second & 0xffff0000u)};
  }
}

template <int DTYPE>
WL_DEVICE void accumulate(Values<DTYPE>& total, Values<DTYPE> more) {
#pragma unroll
  for (int i = 0; i < int(sizeof(total.v) / sizeof(float)); ++i) total.v[i] = add(total.v[i], more.v[i]);
}

WL_DEVICE float canonical(float x) { return x != x ? bits_to_float(0x7fffffffu) : x; }

template <int DTYPE, int WORLD>
WL_DEVICE Words pack(Values<DTYPE> t) {
  if constexpr (WORLD == 1) {
#pragma unroll
    for (int i = 0; i < int(sizeof(t.v) / sizeof(float)); ++i) t.v[i] = canonical(t.v[i]);
  }
  if constexpr (DTYPE == FLOAT32) {
    return {float_to_bits(t.v[0]), float_to_bits(t.v[1])};
  } else if constexpr (DTYPE == FLOAT16) {
    return {floats_to_halves(t.v[0], t.v[1]), floats_to_halves(t.v[2], t.v[3])};
  } else {
    return {floats_to_bfloats(t.v[0], t.v[1]), floats_to_bfloats(t.v[2], t.v[3])};
  }
}

template <int DTYPE>
WL_DEVICE Words nan_words() {
  return DTYPE == FLOAT32 ? Words{0x7fffffffu, 0x7fffffffu} : Words{0x7fff7fffu, 0x7fff7fffu};
}

}  // namespace worldline
