// A caller's tensor as 8-byte items, whatever its alignment and count; twin of vectors.py.
#pragma once
#include "numerics.cuh"

namespace worldline {

template <int DTYPE>
constexpr int PER_ITEM = DTYPE == FLOAT32 ? 2 : 4;

template <int DTYPE, bool WIDE>
WL_DEVICE Words load_item(const void* base, u64 item, u64 count) {
  if constexpr (WIDE) {
    const u64 both = static_cast<const u64*>(base)[item];
    return {u32(both), u32(both >> 32)};
  } else if constexpr (DTYPE == FLOAT32) {
    const u32* p = static_cast<const u32*>(base);
    const u64 at = item * 2;
    return {p[at], at + 1 < count ? p[at + 1] : 0};
  } else {
    const u16* p = static_cast<const u16*>(base);
    const u64 at = item * 4;
    u32 v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = at + i < count ? p[at + i] : 0;
    return {v[0] | v[1] << 16, v[2] | v[3] << 16};
  }
}

template <int DTYPE, bool WIDE>
WL_DEVICE void store_item(void* base, u64 item, u64 count, Words w) {
  if constexpr (WIDE) {
    static_cast<u64*>(base)[item] = u64(w.second) << 32 | w.first;
  } else if constexpr (DTYPE == FLOAT32) {
    u32* p = static_cast<u32*>(base);
    const u64 at = item * 2;
    p[at] = w.first;
    if (at + 1 < count) p[at + 1] = w.second;
  } else {
    u16* p = static_cast<u16*>(base);
    const u64 at = item * 4;
    const u16 v[4] = {u16(w.first), u16(w.first >> 16), u16(w.second), u16(w.second >> 16)};
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (at + i < count) p[at + i] = v[i];
  }
}

}  // namespace worldline
