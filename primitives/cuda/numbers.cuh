// What a kernel reduces and how: dtypes, operations, and elements in words of 32 bits.
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

enum Dtype {
  FLOAT32 = 0,
  FLOAT16 = 1,
  BFLOAT16 = 2,
  FLOAT64 = 3,
  FLOAT8_E4M3 = 4,
  FLOAT8_E5M2 = 5,
  INT8 = 6,
  UINT8 = 7,
  INT32 = 8,
  INT64 = 9
};
enum Op { SUM = 0, AVG = 1, MIN = 2, MAX = 3, PROD = 4, SCALED_SUM = 5 };

template <int DTYPE>
constexpr int BYTES_OF = DTYPE == FLOAT64 || DTYPE == INT64     ? 8
                         : DTYPE == FLOAT32 || DTYPE == INT32   ? 4
                         : DTYPE == FLOAT16 || DTYPE == BFLOAT16 ? 2
                                                                 : 1;

// A pair of a dtype and an operation, as one argument of templates.
template <int OF, int BY>
struct Numbers {
  static constexpr int DTYPE = OF, OP = BY;
  static constexpr int BYTES = BYTES_OF<OF>;  // of an element
  static constexpr bool FLOATS = DTYPE < INT8;
  // An element's bits.
  using Element = typename Choose<BYTES == 8, u64,
                                  typename Choose<BYTES == 4, u32, typename Choose<BYTES == 2, u16, u8>::Type>::Type>::Type;
  // An average of integers needs their exact sum.
  using Integer = typename Choose<BYTES == 8 || (BYTES == 4 && OP == AVG), s64, int>::Type;
  using Accumulator =
      typename Choose<DTYPE == FLOAT64, double, typename Choose<FLOATS, float, Integer>::Type>::Type;
};

// The data of an item: N words of 32 bits.
template <int N>
struct Words {
  u32 w[N];
};

// Elements in N words.
template <class NUMBERS, int N>
constexpr int PER_ITEM = N * 4 / NUMBERS::BYTES;

template <class NUMBERS, int N>
WL_DEVICE typename NUMBERS::Element element(const Words<N>& words, int i) {
  using Element = typename NUMBERS::Element;
  constexpr int BYTES = NUMBERS::BYTES;
  if constexpr (BYTES == 8)
    return Element(words.w[2 * i + 1]) << 32 | words.w[2 * i];
  else
    return Element(words.w[i * BYTES / 4] >> 8 * (i * BYTES % 4));
}

// Put an element into words, those before it first.
template <class NUMBERS, int N>
WL_DEVICE void put(Words<N>& words, int i, typename NUMBERS::Element x) {
  constexpr int BYTES = NUMBERS::BYTES;
  if constexpr (BYTES == 8) {
    words.w[2 * i] = u32(x);
    words.w[2 * i + 1] = u32(x >> 32);
  } else if constexpr (BYTES == 4) {
    words.w[i] = x;
  } else {
    u32& word = words.w[i * BYTES / 4];
    word = i * BYTES % 4 == 0 ? u32(x) : word | u32(x) << 8 * (i * BYTES % 4);
  }
}

}  // namespace worldline
