// LL: data and flag in one store, no barrier; twin of ll.py, whose docstring is the specification.
#pragma once
#include "epochs.cuh"
#include "numbers.cuh"
#include "poll.cuh"

namespace worldline {

WL_DEVICE void ll_send(char* slot, Words<2> data, u32 epoch) {
  const u64 flag = u64(epoch) << 32;
  store_pair(slot, Pair{data.w[0] | flag, data.w[1] | flag});
}

WL_DEVICE bool ll_arrived(Pair v, u32 epoch) {
  return u32(v.first >> 32) == epoch && u32(v.second >> 32) == epoch;
}

WL_DEVICE u32 ll_flag(Pair v, u32 epoch) {
  return u32(v.first >> 32) != epoch ? u32(v.first >> 32) : u32(v.second >> 32);
}

// The protocol of one launch, as kernels take it.
struct Ll : Halves {
  static constexpr int WORDS = 2;  // of data in a slot
  static constexpr u64 BYTES = SLOT;
  static constexpr bool AT_ONCE = true;  // waits for slots of several ranks
  static constexpr bool RING = false;    // a launch goes through its slots once
  using Look = Pair;
  using Halves::Halves;

  WL_DEVICE static bool agreed(bool x) { return x; }
  WL_DEVICE static void begin_pass(u32) {}
  WL_DEVICE void send(char* slot, Words<2> data) const { ll_send(slot, data, epoch); }
  WL_DEVICE Pair look(const char* slot, bool wanted) const { return wanted ? load_pair(slot) : Pair{}; }
  // For the slots of all ranks but OWN.
  template <int OWN, int N, class Wanted, class Slot, class Where>
  WL_DEVICE bool wait(Pair (&seen)[N], Wanted wanted, Slot slot, Where where, const Lane& lane) const {
    return poll_pairs(
        seen, [&](int i) WL_INLINE { return i != OWN && wanted(i); }, slot, where, [&](Pair v) WL_INLINE { return ll_arrived(v, epoch); },
        [](int) WL_INLINE {}, [&](Pair v) WL_INLINE { return ll_flag(v, epoch); }, epoch, lane);
  }
  WL_DEVICE Words<2> data(Pair v) const { return {u32(v.first), u32(v.second)}; }
};

}  // namespace worldline
