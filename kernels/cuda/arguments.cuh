// What a launch of an all-reduce is told.
#pragma once
#include "deadline.cuh"

namespace worldline {

struct AllReduce {
  Lane lane;
  const void* source;
  void* target;
  u64 count;
  u64 items;   // of a slot's data in the input, rounded up
  u64 share;   // items to a rank in the two-shot, rounded up
  u64 region;  // offset of the protocol's slots in every arena
  u64 buffer;  // bytes of one of its halves or stages
  u64 stride;  // slots from one source's to the next's
  u64 sums;      // offset of the sums in every arena
  u64 sum_stage; // bytes of one of their stages
  u32 launch_point;  // 0: the successor may start after the wait; 1: after the stores
  u64 scale;  // a double's bits, by which a scaled sum multiplies what it adds
};

}  // namespace worldline
