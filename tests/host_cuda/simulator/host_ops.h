// Stands in for primitives/cuda/host_ops.h: every operation goes to the simulator.
//
// A pair is two 64-bit accesses, which is all that the architecture promises of a vector access. A
// thread takes whole lines.
#pragma once
#include "host_common.h"
#include "seam.h"

namespace worldline {

inline u32 thread_index() { return simulator::place().thread; }
inline u32 block_threads() { return simulator::place().threads; }
inline u32 block_index() { return simulator::place().block; }
inline u32 grid_blocks() { return simulator::place().blocks; }
inline void block_barrier() { simulator::barrier(); }
inline void arrive_at(int barrier) { simulator::arrive_at(barrier); }
inline void wait_at(int barrier) { simulator::wait_at(barrier); }
inline void pause() { simulator::pause(); }
inline u32 not_before_here(u32 x) { return x; }
inline void wait_for_predecessor(u64) { simulator::wait_for_predecessor(); }
inline void launch_successor() { simulator::launch_successor(); }
inline void fence_system() { simulator::fence(); }
inline u64 clock_ns() { return simulator::clock_ns(); }

inline u32 load_u32(const u32* p) { return u32(simulator::load(u64(p), 4)); }
inline u64 load_u64(const u64* p) { return simulator::load(u64(p), 8); }
inline u32 load_acquire_u32(const u32* p) { return simulator::load_acquire(u64(p)); }
inline void store_release_u32(u32* p, u32 v) { simulator::store_release(u64(p), 4, v); }
inline void store_u64(u64* p, u64 v) { simulator::store(u64(p), 8, v); }
inline void store_release_u64(u64* p, u64 v) { simulator::store_release(u64(p), 8, v); }
inline u64 exchange_u64(u64* p, u64 v) { return simulator::exchange(u64(p), 8, v); }
inline u32 exchange_u32(u32* p, u32 v) { return u32(simulator::exchange(u64(p), 4, v)); }
inline void store_u32(u32* p, u32 v) { simulator::store_plain(u64(p), 4, v); }
inline void store_pair(void* p, Pair v) {
  simulator::store(u64(p), 8, v.first);
  simulator::store(u64(p) + 8, 8, v.second);
}
inline Pair load_pair(const void* p) {
  u64 values[2];
  simulator::load_pair(u64(p), values);
  return {values[0], values[1]};
}

inline void store_part(void* p, Part v) { simulator::store_line(u64(p), v.v); }
inline void add_part(void* p, Part v) { simulator::add_line(u64(p), v.v); }
inline Part load_part(const void* p) {
  Part v;
  simulator::load_line(u64(p), v.v);
  return v;
}

}  // namespace worldline
