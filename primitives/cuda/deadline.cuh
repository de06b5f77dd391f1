// No wait is forever: the deadline, its record and the dead lane; twin of deadline.py.
//
// Each thread watches its own wait. The first of a rank whose deadline passes takes the record's
// lock, writes the record and sets the dead word of every rank.
#pragma once
#include "layout.cuh"
#include "ops.cuh"

namespace worldline {

// What a wait needs to know of the lane; lives in the kernel's arguments.
struct Lane {
  u64 base[MAX_WORLD];  // every arena, as this rank sees it
  u64 limit_ns;         // the deadline of each wait
  u64 notice;           // a word of the host's, raised by kernels that end on a dead lane
  int rank, world, operation;
};

WL_DEVICE u64* control(u64 base, int offset) { return reinterpret_cast<u64*>(base + offset); }

WL_DEVICE bool lane_alive(u64 arena) { return load_u64(control(arena, DEAD)) == 0; }

WL_DEVICE void give_notice(const Lane& lane) { store_u64(reinterpret_cast<u64*>(lane.notice), 1); }

WL_DEVICE void kill_lane(const Lane& lane) {
  for (int step = 0; step < lane.world; ++step)
    store_release_u64(control(lane.base[(lane.rank + step) % lane.world], DEAD), lane.rank + 1);
  give_notice(lane);
}

WL_COLD void report_timeout(const Lane& lane, u32 epoch, int peer, u32 slot, u32 seen) {
  const u64 own = lane.base[lane.rank];
  if (exchange_u64(control(own, RECORD_LOCK), 1) != 0) {
    // The dead word follows the record: until it is there, others of the block would go on.
    for (u32 rounds = 0; rounds < SPINS && lane_alive(own); ++rounds) pause();
    return;
  }
  u64* record = control(own, RECORD);
  store_u64(record + 0, lane.operation);
  store_u64(record + 1, u64((long long)(int)epoch));
  store_u64(record + 2, lane.rank);
  store_u64(record + 3, peer);
  store_u64(record + 4, slot);
  store_u64(record + 5, u64((long long)(int)epoch));
  store_u64(record + 6, u64((long long)(int)seen));
  store_release_u64(record + RECORD_WORDS, 1);
  kill_lane(lane);
}

// A wait that has polled in vain for a while: look at the clock and the dead word between polls.
struct Patience {
  u64 started = 0;

  // Returns false when the wait is over without success.
  WL_DEVICE bool more(const Lane& lane, u32 epoch, int peer, u32 slot, u32 seen) {
    const u64 own = lane.base[lane.rank];
    const u64 now = clock_ns();
    if (started == 0) started = now;
    store_u64(control(own, WAIT_PEER), peer + 1);
    store_u64(control(own, WAIT_BEAT), now);
    if (load_u64(control(own, DEAD)) != 0) {
      store_u64(control(own, GAVE_WAY), 1);
      return false;
    }
    if ((long long)(now - started) <= (long long)lane.limit_ns) return true;
    report_timeout(lane, epoch, peer, slot, seen);
    return false;
  }
};

}  // namespace worldline
