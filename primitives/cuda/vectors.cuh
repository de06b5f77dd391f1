// A caller's tensor as items of N words, whatever its alignment and count; twin of vectors.py.
#pragma once
#include "numbers.cuh"

namespace worldline {

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

template <class NUMBERS, bool WIDE, int N>
WL_DEVICE Words<N> load_item(const void* base, u64 item, u64 count) {
  if constexpr (WIDE) {
    return load_words<N>(base, item);
  } else {
    constexpr int PER = PER_ITEM<NUMBERS, N>;
    using Element = typename NUMBERS::Element;
    const Element* p = static_cast<const Element*>(base);
    const u64 at = item * PER;
    Element v[PER];
#pragma unroll
    for (int i = 0; i < PER; ++i) v[i] = at + i < count ? p[at + i] : 0;
    Words<N> words;
#pragma unroll
    for (int i = 0; i < PER; ++i) put<NUMBERS>(words, i, v[i]);
    return words;
  }
}

template <class NUMBERS, bool WIDE, int N>
WL_DEVICE void store_item(void* base, u64 item, u64 count, Words<N> words) {
  if constexpr (WIDE) {
    store_words(base, item, words);
  } else {
    constexpr int PER = PER_ITEM<NUMBERS, N>;
    using Element = typename NUMBERS::Element;
    Element* p = static_cast<Element*>(base);
    const u64 at = item * PER;
#pragma unroll
    for (int i = 0; i < PER; ++i)
      if (at + i < count) p[at + i] = element<NUMBERS>(words, i);
  }
}

}  // namespace worldline
