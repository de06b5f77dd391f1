// LL: data and flag in one store, no barrier; twin of ll.py, whose docstring is the specification.
#pragma once
#include "deadline.cuh"
#include "numerics.cuh"

namespace worldline {

// A slot by its offset from one of the even half, in bytes.
WL_DEVICE char* ll_slot(u64 even, u32 epoch, u64 half, u64 offset) {
  return reinterpret_cast<char*>(even + (epoch & 1) * half + offset);
}

WL_DEVICE void ll_send(char* slot, Words data, u32 epoch) {
  const u64 flag = u64(epoch) << 32;
  store_pair(slot, Pair{data.first | flag, data.second | flag});
}

WL_DEVICE bool ll_arrived(Pair v, u32 epoch) {
  return u32(v.first >> 32) == epoch && u32(v.second >> 32) == epoch;
}

WL_DEVICE Words ll_data(Pair v) { return {u32(v.first), u32(v.second)}; }

// Poll until the slot has arrived; false if the wait failed. `seen` holds a first look at it.
//
// Several polls to one look at the count: what comes between two polls makes arrivals be seen later.
// Counting each cost 0.06 us a call at 16 KB on two H200s.
WL_DEVICE bool ll_wait(const char* slot, Pair& seen, u32 epoch, const Lane& lane, int peer, u32 index) {
  constexpr int POLLS = 4;
  if (ll_arrived(seen, epoch)) return true;
  Patience patience;
#pragma unroll 1
  for (u32 rounds = 1;; ++rounds) {
#pragma unroll
    for (int poll = 0; poll < POLLS; ++poll) {
      pause();
      seen = load_pair(slot);
      if (ll_arrived(seen, epoch)) return true;
    }
#ifndef WL_NO_DEADLINE  // The bench measures what the deadline costs.
    if (rounds % (SPINS / POLLS) != 0) continue;
    const u32 flag = u32(seen.first >> 32) != epoch ? u32(seen.first >> 32) : u32(seen.second >> 32);
    if (!patience.more(lane, epoch, peer, index, flag)) return false;
#endif
  }
}

}  // namespace worldline
