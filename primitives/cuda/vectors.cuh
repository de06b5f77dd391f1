// A caller's tensor as items of N words, whatever its alignment and count; twin of vectors.py.
#pragma once
#include "numerics.cuh"

namespace worldline {

template <int DTYPE, int N>
constexpr int PER_ITEM = N * PER_WORD<DTYPE>;

// Two or four words by one access, which needs their alignment.
template <int N>
WL_DEVICE Words<N> load_words(const void* base, u64 item) {
  if constexpr (N == 2) {
    const u64 both = static_cast<const u64*>(base)[item];
    return {u32(both), u32(both >> 32)};
  } else {
    const Pair v = static_cast<const Pair*>(base)[item];
    return {u32(v.first), u32(v.first >> 32), u32(v.second), u32(v.second >> 32)};
  }
}

template <int N>
WL_DEVICE void store_words(void* base, u64 item, Words<N> w) {
  if constexpr (N == 2)
    static_cast<u64*>(base)[item] = u64(w.w[1]) << 32 | w.w[0];
  else
    static_cast<Pair*>(base)[item] = {u64(w.w[1]) << 32 | w.w[0], u64(w.w[3]) << 32 | w.w[2]};
}

template <int DTYPE, bool WIDE, int N>
WL_DEVICE Words<N> load_item(const void* base, u64 item, u64 count) {
  if constexpr (WIDE) {
    return load_words<N>(base, item);
  } else if constexpr (DTYPE == FLOAT32) {
    const u32* p = static_cast<const u32*>(base);
    const u64 at = item * N;
    Words<N> words;
#pragma unroll
    for (int i = 0; i < N; ++i) words.w[i] = at + i < count ? p[at + i] : 0;
    return words;
  } else {
    const u16* p = static_cast<const u16*>(base);
    const u64 at = item * (2 * N);
    u32 v[2 * N];
#pragma unroll
    for (int i = 0; i < 2 * N; ++i) v[i] = at + i < count ? p[at + i] : 0;
    Words<N> words;
#pragma unroll
    for (int i = 0; i < N; ++i) words.w[i] = v[2 * i] | v[2 * i + 1] << 16;
    return words;
  }
}

template <int DTYPE, bool WIDE, int N>
WL_DEVICE void store_item(void* base, u64 item, u64 count, Words<N> words) {
  if constexpr (WIDE) {
    store_words(base, item, words);
  } else if constexpr (DTYPE == FLOAT32) {
    u32* p = static_cast<u32*>(base);
    const u64 at = item * N;
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (at + i < count) p[at + i] = words.w[i];
  } else {
    u16* p = static_cast<u16*>(base);
    const u64 at = item * (2 * N);
#pragma unroll
    for (int i = 0; i < 2 * N; ++i)
      if (at + i < count) p[at + i] = u16(words.w[i / 2] >> 16 * (i % 2));
  }
}

}  // namespace worldline
