// Host twins of ops.cuh: std::atomic_ref for threads under ThreadSanitizer (C++20).
//
// Relaxed operations stay relaxed, so that ThreadSanitizer sees a plain access that no flag orders.
// A pair is two 64-bit atomics, which is all that the architecture promises of a vector access.
#pragma once
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#define WL_DEVICE inline
#define WL_COLD inline
#define __grid_constant__
#define __global__

namespace worldline {

struct alignas(16) Pair {
  u64 first, second;
};

// Who a thread is, and how its block meets: the harness sets them.
struct Place {
  u32 thread = 0, threads = 1, block = 0, blocks = 1;
  void (*meet)(void*) = nullptr;
  void* where = nullptr;
};
inline thread_local Place place;

inline u32 thread_index() { return place.thread; }
inline u32 block_threads() { return place.threads; }
inline u32 block_index() { return place.block; }
inline u32 grid_blocks() { return place.blocks; }
inline void block_barrier() {
  if (place.meet) place.meet(place.where);
}
inline void pause() { std::this_thread::yield(); }
inline u32 not_before_here(u32 x) { return x; }
inline void wait_for_predecessor() {}
inline void launch_successor() {}
inline void fence_system() { std::atomic_thread_fence(std::memory_order_acq_rel); }

template <class T>
std::atomic_ref<T> shared(const T* p) {
  return std::atomic_ref<T>(*const_cast<T*>(p));
}
inline u32 load_u32(const u32* p) { return shared(p).load(std::memory_order_relaxed); }
inline u64 load_u64(const u64* p) { return shared(p).load(std::memory_order_relaxed); }
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
inline u64 clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline float bits_to_float(u32 x) {
  float v;
  std::memcpy(&v, &x, 4);
  return v;
}
inline u32 float_to_bits(float x) {
  u32 v;
  std::memcpy(&v, &x, 4);
  return v;
}
// A CPU keeps a NaN's payload; a GPU's adder gives one pattern.
inline float add(float a, float b) {
  const float sum = a + b;
  return sum != sum ? bits_to_float(0x7fffffffu) : sum;
}
inline float half_to_float(u16 x) {
  const u32 sign = u32(x & 0x8000u) << 16, exponent = x >> 10 & 31, mantissa = x & 0x3ffu;
  if (exponent == 31) return bits_to_float(sign | 0x7f800000u | mantissa << 13);
  if (exponent) return bits_to_float(sign | (exponent + 112) << 23 | mantissa << 13);
  const float value = float(mantissa) * 5.9604644775390625e-08f;  // 2^-24
  return sign ? -value : value;
}
inline u16 float_to_half(float x) {
  const u32 bits = float_to_bits(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return 0x7fff;
  if (rest >= 0x47800000u) return u16(sign | 0x7c00u);
  if (rest < 0x38800000u) {  // subnormal: the addition rounds to nearest even
    const float magic = bits_to_float(rest) + 0.5f;
    return u16(sign | (float_to_bits(magic) - 0x3f000000u));
  }
  const u32 rounded = rest + 0xfffu + (rest >> 13 & 1);
  return u16(sign | (rounded - 0x38000000u) >> 13);
}
inline u16 float_to_bfloat(float x) {
  const u32 bits = float_to_bits(x);
  return x != x ? 0x7fff : u16((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
inline u32 floats_to_halves(float low, float high) {
  return u32(float_to_half(high)) << 16 | float_to_half(low);
}
inline u32 floats_to_bfloats(float low, float high) {
  return u32(float_to_bfloat(high)) << 16 | float_to_bfloat(low);
}

}  // namespace worldline
