// Host twins of ops.cuh: std::atomic_ref for threads under ThreadSanitizer (C++20).
//
// Relaxed operations stay relaxed, so that ThreadSanitizer sees a plain access that no flag orders.
// A pair is two 64-bit atomics, which is all that the architecture promises of a vector access.
#pragma once
#include <atomic>
#include <chrono>
#include <thread>

#include "host_common.h"

namespace worldline {

// Who a thread is, and how its block meets: the harness sets them.
struct Place {
  u32 thread = 0, threads = 1, block = 0, blocks = 1;
  void (*meet)(void* where, int barrier, bool waits) = nullptr;
  void* where = nullptr;
};
inline thread_local Place place;

inline u32 thread_index() { return place.thread; }
inline u32 block_threads() { return place.threads; }
inline u32 block_index() { return place.block; }
inline u32 grid_blocks() { return place.blocks; }
inline void meet(int barrier, bool waits) {
  if (place.meet) place.meet(place.where, barrier, waits);
}
inline void block_barrier() { meet(0, true); }
inline void arrive_at(int barrier) { meet(barrier, false); }
inline void wait_at(int barrier) { meet(barrier, true); }
inline void pause() { std::this_thread::yield(); }
inline u32 not_before_here(u32 x) { return x; }
inline void wait_for_predecessor(u64) {}
inline void launch_successor() {}
inline void fence_system() { std::atomic_thread_fence(std::memory_order_acq_rel); }

template <class T>
std::atomic_ref<T> shared(const T* p) {
  return std::atomic_ref<T>(*const_cast<T*>(p));
}
inline u32 load_u32(const u32* p) { return shared(p).load(std::memory_order_relaxed); }
inline u64 load_u64(const u64* p) { return shared(p).load(std::memory_order_relaxed); }
inline u32 load_acquire_u32(const u32* p) { return shared(p).load(std::memory_order_acquire); }
inline void store_release_u32(u32* p, u32 v) { shared(p).store(v, std::memory_order_release); }
inline void store_u64(u64* p, u64 v) { shared(p).store(v, std::memory_order_relaxed); }
inline void store_release_u64(u64* p, u64 v) { shared(p).store(v, std::memory_order_release); }
inline u64 exchange_u64(u64* p, u64 v) { return shared(p).exchange(v, std::memory_order_relaxed); }
inline u32 exchange_u32(u32* p, u32 v) { return shared(p).exchange(v, std::memory_order_relaxed); }
inline void store_u32(u32* p, u32 v) { shared(p).store(v, std::memory_order_relaxed); }
inline void store_pair(void* p, Pair v) {
  store_u64(static_cast<u64*>(p), v.first);
  store_u64(static_cast<u64*>(p) + 1, v.second);
}
inline Pair load_pair(const void* p) {
  return {load_u64(static_cast<const u64*>(p)), load_u64(static_cast<const u64*>(p) + 1)};
}
inline void add_two(u64* p, u64 v) {
  for (int i = 0; i < 2; ++i) {
    std::atomic_ref<float> sum(reinterpret_cast<float*>(p)[i]);
    sum.fetch_add(bits_to_float(u32(v >> 32 * i)), std::memory_order_relaxed);
  }
}
inline void add_pair(void* p, Pair v) {
  add_two(static_cast<u64*>(p), v.first);
  add_two(static_cast<u64*>(p) + 1, v.second);
}
// A line at a time, as a link that keeps lines whole would show it. Behind a lock that orders nothing
// else: ThreadSanitizer is not told of it.
inline void line_lock(const void* p, bool taken) {
  static std::atomic_flag locks[64];
  std::atomic_flag& lock = locks[u64(p) / 128 % 64];
  if (!taken) return lock.clear(std::memory_order_relaxed);
  while (lock.test_and_set(std::memory_order_relaxed)) std::this_thread::yield();
}
inline void store_part(void* p, Part v) {
  line_lock(p, true);
  for (int i = 0; i < 16; ++i) store_u64(static_cast<u64*>(p) + i, v.v[i]);
  line_lock(p, false);
}
inline void add_part(void* p, Part v) {
  line_lock(p, true);
  for (int i = 0; i < 16; ++i) add_two(static_cast<u64*>(p) + i, v.v[i]);
  line_lock(p, false);
}
inline Part load_part(const void* p) {
  Part v;
  line_lock(p, true);
  for (int i = 0; i < 16; ++i) v.v[i] = load_u64(static_cast<const u64*>(p) + i);
  line_lock(p, false);
  return v;
}
inline u64 clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace worldline
