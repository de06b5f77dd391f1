// Sentinel: data at full width in slots that are empty until it comes; twin of sentinel.py, whose
// docstring is the specification.
#pragma once
#include "counters.cuh"
#include "numbers.cuh"
#include "poll.cuh"

namespace worldline {

constexpr u64 EMPTY = ~u64(0);

// A word that is all ones is NaN, in every element: with the lowest one's sign changed it is NaN
// still, and can be told from an empty one.
template <class NUMBERS>
WL_DEVICE u64 sendable(u32 low, u32 high) {
  const u64 word = u64(high) << 32 | low, other = EMPTY ^ u64(1) << (8 * NUMBERS::BYTES - 1);
  return word == EMPTY ? other : word;
}

template <class NUMBERS>
WL_DEVICE void sentinel_send(char* slot, Words<4> data) {
  store_pair(slot, Pair{sendable<NUMBERS>(data.w[0], data.w[1]), sendable<NUMBERS>(data.w[2], data.w[3])});
}

WL_DEVICE bool sentinel_arrived(Pair v) { return v.first != EMPTY && v.second != EMPTY; }

WL_DEVICE void sentinel_rearm(char* slot) { store_pair(slot, Pair{EMPTY, EMPTY}); }

// The protocol of one pass, as kernels take it.
struct Sentinel {
  static constexpr int WORDS = 4;

  u64 stage;
  u32 count = 0;

  WL_DEVICE explicit Sentinel(u64 stage) : stage(stage) {}
  WL_DEVICE void begin(u32 last) { count = stage_after(last); }
  // A slot by its offset from one of the first stage, in bytes.
  WL_DEVICE char* slot(u64 first, u64 offset) const {
    return reinterpret_cast<char*>(first + (count & 3) * stage + offset);
  }
  template <class NUMBERS>
  WL_DEVICE void send(char* slot, Words<4> data) const {
    sentinel_send<NUMBERS>(slot, data);
  }
  // What has come is empty again at once: nobody needs to know later how far it went.
  template <int N, class Wanted, class Slot, class Where>
  WL_DEVICE bool wait(Pair (&seen)[N], Wanted wanted, Slot slot, Where where, const Lane& lane) const {
    return poll_pairs(
        seen, wanted, slot, where, [](Pair v) WL_INLINE { return sentinel_arrived(v); },
        [&](int i) WL_INLINE { sentinel_rearm(slot(i)); }, [](Pair) WL_INLINE { return u32(EMPTY); }, count >> 2, lane);
  }
  WL_DEVICE Words<4> data(Pair v) const {
    return {u32(v.first), u32(v.first >> 32), u32(v.second), u32(v.second >> 32)};
  }
};

}  // namespace worldline
