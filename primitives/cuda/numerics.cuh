// Reductions in rank order in an accumulator, rounded once; twin of numerics.py.
//
// NaN results have one pattern per dtype, all ones but for the sign, of 8-bit floats too. NVIDIA's float
// adders and converters give just that, so that sums of ordinary floats need nothing more; one rank
// adds nothing, and other operations and dtypes may give others: these NaNs are made canonical here.
#pragma once
#include "fp8.cuh"
#include "numbers.cuh"

namespace worldline {

template <class NUMBERS, int N>
struct Values {
  typename NUMBERS::Accumulator v[PER_ITEM<NUMBERS, N>];
};

// Integers wrap.
WL_DEVICE int add(int a, int b) { return int(u32(a) + u32(b)); }
WL_DEVICE s64 add(s64 a, s64 b) { return s64(u64(a) + u64(b)); }
WL_DEVICE int multiply(int a, int b) { return int(u32(a) * u32(b)); }
WL_DEVICE s64 multiply(s64 a, s64 b) { return s64(u64(a) * u64(b)); }

WL_DEVICE float canonical(float x) { return x != x ? bits_to_float(0x7fffffffu) : x; }
WL_DEVICE double canonical(double x) { return x != x ? bits_to_double(~u64(0) >> 1) : x; }

template <class NUMBERS>
WL_DEVICE typename NUMBERS::Accumulator widen(typename NUMBERS::Element x) {
  constexpr int DTYPE = NUMBERS::DTYPE;
  if constexpr (DTYPE == FLOAT16)
    return half_to_float(x);
  else if constexpr (DTYPE == FLOAT64)
    return bits_to_double(x);
  else if constexpr (DTYPE == FLOAT8_E4M3)
    return e4m3_to_float(x);
  else if constexpr (DTYPE == FLOAT8_E5M2)
    return e5m2_to_float(x);
  else if constexpr (DTYPE == INT8)
    return static_cast<signed char>(x);
  else if constexpr (DTYPE == INT32)
    return int(x);
  else
    return typename NUMBERS::Accumulator(x);
}

template <class NUMBERS>
WL_DEVICE typename NUMBERS::Element narrow(typename NUMBERS::Accumulator x) {
  constexpr int DTYPE = NUMBERS::DTYPE;
  if constexpr (DTYPE == FLOAT64)
    return double_to_bits(x);
  else if constexpr (DTYPE == FLOAT8_E4M3)
    return u8(float_to_e4m3(x));
  else if constexpr (DTYPE == FLOAT8_E5M2)
    return u8(float_to_e5m2(x));
  else
    return typename NUMBERS::Element(x);
}

// A rank's part of a reduction. `scale`: the bits of a double, by which a scaled sum multiplies.
template <class NUMBERS, int N>
WL_DEVICE Values<NUMBERS, N> unpack(Words<N> words, u64 scale = 0) {
  using Accumulator = typename NUMBERS::Accumulator;
  Values<NUMBERS, N> values;
#pragma unroll
  for (int i = 0; i < PER_ITEM<NUMBERS, N>; ++i) {
    // A word or its upper half may be a float as it is.
    if constexpr (NUMBERS::DTYPE == FLOAT32)
      values.v[i] = bits_to_float(words.w[i]);
    else if constexpr (NUMBERS::DTYPE == BFLOAT16)
      values.v[i] = bits_to_float(i % 2 ? words.w[i / 2] & 0xffff0000u : words.w[i / 2] << 16);
    else
      values.v[i] = widen<NUMBERS>(element<NUMBERS>(words, i));
    if constexpr (NUMBERS::OP == SCALED_SUM) values.v[i] = multiply(values.v[i], Accumulator(bits_to_double(scale)));
  }
  return values;
}

// Of equal ones, both zeros too, the earlier rank's stays; a NaN stays in any case.
template <class NUMBERS>
WL_DEVICE typename NUMBERS::Accumulator fold(typename NUMBERS::Accumulator total, typename NUMBERS::Accumulator more) {
  if constexpr (NUMBERS::OP == MIN)
    return more < total || more != more ? more : total;
  else if constexpr (NUMBERS::OP == MAX)
    return more > total || more != more ? more : total;
  else if constexpr (NUMBERS::OP == PROD)
    return multiply(total, more);
  else
    return add(total, more);
}

template <class NUMBERS, int N>
WL_DEVICE void accumulate(Values<NUMBERS, N>& total, Values<NUMBERS, N> more) {
#pragma unroll
  for (int i = 0; i < PER_ITEM<NUMBERS, N>; ++i) total.v[i] = fold<NUMBERS>(total.v[i], more.v[i]);
}

// A true division. Of floats by a power of two it is a product, which rounds alike.
template <class NUMBERS, int WORLD>
WL_DEVICE typename NUMBERS::Accumulator average(typename NUMBERS::Accumulator x) {
  using Accumulator = typename NUMBERS::Accumulator;
  if constexpr (!NUMBERS::FLOATS)
    return x / WORLD;
  else if constexpr ((WORLD & (WORLD - 1)) == 0)
    return multiply(x, Accumulator(1) / WORLD);
  else
    return divide(x, Accumulator(WORLD));
}

template <int WORLD, class NUMBERS, int N>
WL_DEVICE Words<N> pack(Values<NUMBERS, N> t) {
  constexpr int DTYPE = NUMBERS::DTYPE, OP = NUMBERS::OP;
#pragma unroll
  for (int i = 0; i < PER_ITEM<NUMBERS, N>; ++i) {
    if constexpr (OP == AVG) t.v[i] = average<NUMBERS, WORLD>(t.v[i]);
    if constexpr (NUMBERS::FLOATS && (WORLD == 1 || OP != SUM || DTYPE == FLOAT64)) t.v[i] = canonical(t.v[i]);
  }
  Words<N> words;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if constexpr (DTYPE == FLOAT32)
      words.w[i] = float_to_bits(t.v[i]);
    else if constexpr (DTYPE == FLOAT16)
      words.w[i] = floats_to_halves(t.v[2 * i], t.v[2 * i + 1]);
    else if constexpr (DTYPE == BFLOAT16)
      words.w[i] = floats_to_bfloats(t.v[2 * i], t.v[2 * i + 1]);
  }
  if constexpr (DTYPE > BFLOAT16) {
#pragma unroll
    for (int i = 0; i < PER_ITEM<NUMBERS, N>; ++i) put<NUMBERS>(words, i, narrow<NUMBERS>(t.v[i]));
  }
  return words;
}

// What a failed reduction's output holds: NaN, and 0 where there is none.
template <class NUMBERS, int N>
WL_DEVICE Words<N> spoilt_words() {
  constexpr int BYTES = NUMBERS::BYTES;
  constexpr u32 HIGH = BYTES == 2 ? 0x7fff7fffu : BYTES == 1 ? 0x7f7f7f7fu : 0x7fffffffu;
  Words<N> words;
#pragma unroll
  for (int i = 0; i < N; ++i) words.w[i] = !NUMBERS::FLOATS ? 0 : BYTES == 8 && i % 2 == 0 ? ~u32(0) : HIGH;
  return words;
}

}  // namespace worldline
