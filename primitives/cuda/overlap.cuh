// Two operations of one lane must not run at once: the busy words; twin of overlap.py.
#pragma once
#include "deadline.cuh"

namespace worldline {

WL_DEVICE u32* busy_word(u64 arena) { return reinterpret_cast<u32*>(arena + BUSY) + block_index(); }

// Mark the block busy. Returns 1, on one thread, if an operation is running there. Nobody needs to
// know before leave_lane, but the exchange shares one of six scoreboards with loads, and who waits
// for those waits for it: so it comes after the sends, and its time is spent waiting for peers. In
// front of them it cost 0.2 us a call on an H200.
WL_DEVICE u32 enter_lane(u32* busy) {
  return thread_index() == 0 ? exchange_u32(busy, 1) : 0;
}

WL_COLD void report_overlap(const Lane& lane) {
  store_u64(control(lane.base[lane.rank], OVERLAPPED), lane.operation + 1);
  kill_lane(lane);
}

// Clear the mark when the marking thread is done: nobody waits for the rest of the block, so the last
// instants of an operation may go unwatched. Kill the lane if another operation's mark was found, and
// tell the host if the lane was dead at entry or a wait failed: each thread that knows of it, since
// another may have been done before.
WL_DEVICE void leave_lane(const Lane& lane, u32* busy, u32 found, bool alive) {
  if (!alive) give_notice(lane);
  if (thread_index() != 0) return;
  store_u32(busy, 0);
  if (not_before_here(found)) report_overlap(lane);
}

}  // namespace worldline
