// What a launch that exchanges parts is told: which bytes go to each rank, and which come from it.
#pragma once
#include "deadline.cuh"

namespace worldline {

struct Parts {
  Lane lane;
  const void* source;
  void* target;
  u64 send_at[MAX_WORLD], send[MAX_WORLD];  // bytes of the source for a rank: where, and how many
  u64 take_at[MAX_WORLD], take[MAX_WORLD];  // bytes of the target from a rank
  u64 send_items[MAX_WORLD], take_items[MAX_WORLD];  // threads' items of those
  u64 items;   // of the largest part that this rank has to do with
  u64 region;  // offset of the protocol's slots in every arena
  u64 buffer;  // bytes of one of its halves
  u64 stride;  // slots from one source's to the next's
  u64 spoilt;  // what fills the target of a move that failed
  u64 scale;   // the bits of a double, by which a scaled sum multiplies
  u32 launch_point;  // 0: the successor may start after the wait; 1: after the first stores
};

}  // namespace worldline
