// Sums in rank order with a float32 accumulator, rounded once; twin of numerics.py.
//
// NaN results have one pattern per dtype, 0x7fffffff and 0x7fff, which is what NVIDIA's adders and
// converters give; one rank adds nothing, so its NaN is made canonical here.
#pragma once
#include "ops.cuh"

namespace worldline {

template <bool FIRST, class A, class B>
struct Choose {
  using Type = A;
};
template <class A, class B>
struct Choose<false, A, B> {
  using Type = B;
};

enum Dtype { FLOAT32 = 0, FLOAT16 = 1, BFLOAT16 = 2 };

// The data of an item: N words of 32 bits.
template <int N>
struct Words {
  u32 w[N];
};

template <int DTYPE>
constexpr int PER_WORD = DTYPE == FLOAT32 ? 1 : 2;

template <int DTYPE, int N>
struct Values {
  float v[N * PER_WORD<DTYPE>];
};

template <int DTYPE, int N>
WL_DEVICE Values<DTYPE, N> unpack(Words<N> words) {
  Values<DTYPE, N> values;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const u32 w = words.w[i];
    if constexpr (DTYPE == FLOAT32) {
      values.v[i] = bits_to_float(w);
    } else if constexpr (DTYPE == FLOAT16) {
      values.v[2 * i] = half_to_float(u16(w));
      values.v[2 * i + 1] = half_to_float(u16(w >> 16));
    } else {
      values.v[2 * i] = bits_to_float(w << 16);
      values.v[2 * i + 1] = bits_to_float(w & 0xffff0000u);
    }
  }
  return values;
}

template <int DTYPE, int N>
WL_DEVICE void accumulate(Values<DTYPE, N>& total, Values<DTYPE, N> more) {
#pragma unroll
  for (int i = 0; i < N * PER_WORD<DTYPE>; ++i) total.v[i] = add(total.v[i], more.v[i]);
}

WL_DEVICE float canonical(float x) { return x != x ? bits_to_float(0x7fffffffu) : x; }

template <int WORLD, int DTYPE, int N>
WL_DEVICE Words<N> pack(Values<DTYPE, N> t) {
  if constexpr (WORLD == 1) {
#pragma unroll
    for (int i = 0; i < N * PER_WORD<DTYPE>; ++i) t.v[i] = canonical(t.v[i]);
  }
  Words<N> words;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if constexpr (DTYPE == FLOAT32)
      words.w[i] = float_to_bits(t.v[i]);
    else if constexpr (DTYPE == FLOAT16)
      words.w[i] = floats_to_halves(t.v[2 * i], t.v[2 * i + 1]);
    else
      words.w[i] = floats_to_bfloats(t.v[2 * i], t.v[2 * i + 1]);
  }
  return words;
}

template <int DTYPE, int N>
WL_DEVICE Words<N> nan_words() {
  Words<N> words;
#pragma unroll
  for (int i = 0; i < N; ++i) words.w[i] = DTYPE == FLOAT32 ? 0x7fffffffu : 0x7fff7fffu;
  return words;
}

}  // namespace worldline
