// LL: data and flag in one store, no barrier; twin of ll.py, whose docstring is the specification.
#pragma once
#include "deadline.cuh"
#include "numerics.cuh"

namespace worldline {

WL_DEVICE char* ll_slot(u64 base, u32 epoch, u64 half, u64 slot) {
  return reinterpret_cast<char*>(base + LL + (epoch & 1) * half + slot * SLOT);
}

WL_DEVICE void ll_send(char* slot, Words data, u32 epoch) {
  const u64 flag = u64(epoch) << 32;
  store_pair(slot, Pair{data.first | flag, data.second | flag});
}

WL_DEVICE bool ll_arrived(Pair v, u32 epoch) {
  return u32(v.first >> 32) == epoch && u32(v.second >> 32) == epoch;
}

WL_DEVICE Words ll_data(Pair v) { return {u32(v.first), u32(v.second)}; }

// Poll a slot that is late, watching the clock and the lane; false if the wait failed.
WL_DEVICE bool ll_wait_watched(const char* slot, Pair& seen, u32 epoch, const Lane& lane, int peer, u32 index) {
  Patience patience;
#pragma unroll 1
  for (u32 looks = 1; !ll_arrived(seen, epoch); ++looks) {
    pause();
    seen = load_pair(slot);
    if ((looks & (SPINS - 1)) != 0) continue;
    const u32 flag = u32(seen.first >> 32) != epoch ? u32(seen.first >> 32) : u32(seen.second >> 32);
    if (!patience.more(lane, epoch, peer, index, flag)) return ll_arrived(seen, epoch);
  }
  return true;
}

// Poll until the slot has arrived; false if the wait failed. `seen` holds a first look at it. The
// first looks do nothing else: what a deadline needs stays out of the loop that is nearly always
// enough.
WL_DEVICE bool ll_wait(const char* slot, Pair& seen, u32 epoch, const Lane& lane, int peer, u32 index) {
#pragma unroll 1
  for (u32 looks = 0; !ll_arrived(seen, epoch); ++looks) {
#ifndef WL_NO_DEADLINE  // The bench measures what the deadline costs.
    if (looks == SPINS) return ll_wait_watched(slot, seen, epoch, lane, peer, index);
#endif
    pause();
    seen = load_pair(slot);
  }
  return true;
}

}  // namespace worldline
