// Waiting for a slot in the own memory, with a deadline.
#pragma once
#include "deadline.cuh"

namespace worldline {

// Of a slot, between two looks at the count of polls: what comes in between makes arrivals be seen
// later. Counting each poll cost 0.06 us a call at 16 KB on two H200s.
constexpr int POLLS = 4;

// Poll until a look at the slot passes `arrived`; false if the wait failed. `seen` holds a first
// look. `number` is the operation's epoch or count and `flag` what a look shows of the sender's,
// both for the record.
template <class Arrived, class Flag>
WL_DEVICE bool poll(const char* slot, Pair& seen, Arrived arrived, Flag flag, u32 number, const Lane& lane, int peer,
                    u32 index) {
  if (arrived(seen)) return true;
  Patience patience;
#pragma unroll 1
  for (u32 rounds = 1;; ++rounds) {
#pragma unroll
    for (int poll = 0; poll < POLLS; ++poll) {
      pause();
      seen = load_pair(slot);
      if (arrived(seen)) return true;
    }
#ifndef WL_NO_DEADLINE  // The bench measures what the deadline costs.
    if (rounds % (SPINS / POLLS) != 0) continue;
    if (!patience.more(lane, number, peer, index, flag(seen))) return false;
#endif
  }
}

}  // namespace worldline
