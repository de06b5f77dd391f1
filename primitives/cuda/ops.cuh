// Raw operations: GPU assembly and a plain twin of each. The only CUDA file with PTX.
//
// Two bodies: the device, and host threads (host_ops.h) that the tests race under ThreadSanitizer.
//
// Memory order: store_pair and load_pair are relaxed at system scope. A 16-byte vector access is
// atomic per 64-bit element and promises nothing beyond (PTX ISA, memory consistency model).
#pragma once

namespace worldline {
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using s64 = long long;

struct alignas(16) Pair {
  u64 first, second;
};
}  // namespace worldline

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

#define WL_DEVICE __device__ __forceinline__
#define WL_INLINE __attribute__((always_inline))  // of lambdas
#define WL_COLD __device__ __noinline__

namespace worldline {

constexpr int WARP = 32, LINE_LANES = 8;

// A thread's part of a line of 128 bytes.
struct Part {
  u64 v[16 / LINE_LANES];
};

WL_DEVICE void store_pair(void* p, Pair v) {
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(p), "l"(v.first), "l"(v.second)
               : "memory");
}
WL_DEVICE Pair load_pair(const void* p) {
  Pair v;
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(v.first), "=l"(v.second)
               : "l"(p)
               : "memory");
  return v;
}
// One instruction of a line's threads, which come together, stores, loads or adds to the line as a whole.
WL_DEVICE void store_part(void* p, Part v) { store_pair(p, Pair{v.v[0], v.v[1]}); }
WL_DEVICE Part load_part(const void* p) {
  const Pair v = load_pair(p);
  return {v.first, v.second};
}
// Add four floats to as many, from sm_90 on. Additions of a subnormal, or to one, may take it for zero.
WL_DEVICE void add_pair(void* p, Pair v) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.sys.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p),
               "f"(__uint_as_float(u32(v.first))), "f"(__uint_as_float(u32(v.first >> 32))),
               "f"(__uint_as_float(u32(v.second))), "f"(__uint_as_float(u32(v.second >> 32)))
               : "memory");
#endif
}
WL_DEVICE void add_part(void* p, Part v) { add_pair(p, Pair{v.v[0], v.v[1]}); }
WL_DEVICE u32 load_u32(const u32* p) {
  u32 v;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
WL_DEVICE u32 load_acquire_u32(const u32* p) {
  u32 v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
WL_DEVICE u64 load_u64(const u64* p) {
  u64 v;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
WL_DEVICE void store_u64(u64* p, u64 v) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
WL_DEVICE void store_release_u32(u32* p, u32 v) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
WL_DEVICE void store_release_u64(u64* p, u64 v) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
WL_DEVICE u64 exchange_u64(u64* p, u64 v) {
  u64 old;
  asm volatile("atom.relaxed.sys.global.exch.b64 %0, [%1], %2;"
               : "=l"(old)
               : "l"(p), "l"(v)
               : "memory");
  return old;
}
WL_DEVICE u32 exchange_u32(u32* p, u32 v) {
  u32 old;
  asm volatile("atom.relaxed.sys.global.exch.b32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(p), "r"(v)
               : "memory");
  return old;
}
// The word is this block's own for the launch, and the kernel's end orders it; or a fence did.
WL_DEVICE void store_u32(u32* p, u32 v) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
WL_DEVICE void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
WL_DEVICE u64 clock_ns() {
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
WL_DEVICE void warp_meets() { __syncwarp(); }
WL_DEVICE void block_barrier() { __syncthreads(); }
// One-way barriers, numbered from 1: the block's threads arrive, and those that wait go on when all
// have. What arriving threads did before is then done for the waiting ones. A thread does one of both.
WL_DEVICE void arrive_at(int barrier) {
  warp_meets();
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(blockDim.x) : "memory");
}
WL_DEVICE void wait_at(int barrier) {
  warp_meets();
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(blockDim.x) : "memory");
}
WL_DEVICE u32 thread_index() { return threadIdx.x; }
WL_DEVICE u32 block_threads() { return blockDim.x; }
WL_DEVICE u32 block_index() { return blockIdx.x; }
WL_DEVICE u32 grid_blocks() { return gridDim.x; }
WL_DEVICE void pause() {}
// The value, which the compiler may not ask for any earlier: it would wait for a load or an atomic.
WL_DEVICE u32 not_before_here(u32 x) {
  asm volatile("" : "+r"(x));
  return x;
}

// Eight neighbours of a warp share a line of 128 bytes: whether a condition holds for all of them, and
// the first one's value; and that of the warp's first. The whole warp has to come.
WL_DEVICE bool line_all(bool x) {
  return (__ballot_sync(0xffffffffu, x) >> (threadIdx.x & 24) & 0xffu) == 0xffu;
}
WL_DEVICE bool warp_all(bool x) { return __all_sync(0xffffffffu, x); }
WL_DEVICE u64 line_first(u64 x) { return __shfl_sync(0xffffffffu, x, threadIdx.x & 24); }
WL_DEVICE u64 warp_first(u64 x) { return __shfl_sync(0xffffffffu, x, 0); }


// Programmatic dependent launch: wait until the predecessor has ended and its writes are visible;
// let the successor start. Without the launch attribute, and before sm_90, both do nothing.
//
// `ready` is never zero, and what it was made of is computed before the wait, in time that is free.
// Without the predicate ptxas moves all of it behind: 0.12 us of every call on an H200.
WL_DEVICE void wait_for_predecessor(u64 ready) {
#if __CUDA_ARCH__ >= 900
  asm volatile("{ .reg .pred p; setp.ne.u64 p, %0, 0; @p griddepcontrol.wait; }" ::"l"(ready) : "memory");
#endif
}
WL_DEVICE void launch_successor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

WL_DEVICE float bits_to_float(u32 x) { return __uint_as_float(x); }
WL_DEVICE u32 float_to_bits(float x) { return __float_as_uint(x); }
WL_DEVICE double bits_to_double(u64 x) { return __longlong_as_double(s64(x)); }
WL_DEVICE u64 double_to_bits(double x) { return u64(__double_as_longlong(x)); }
// Each rounds once, and no two of them become one operation.
WL_DEVICE float add(float a, float b) { return __fadd_rn(a, b); }
WL_DEVICE double add(double a, double b) { return __dadd_rn(a, b); }
WL_DEVICE float multiply(float a, float b) { return __fmul_rn(a, b); }
WL_DEVICE double multiply(double a, double b) { return __dmul_rn(a, b); }
WL_DEVICE float divide(float a, float b) { return __fdiv_rn(a, b); }
WL_DEVICE double divide(double a, double b) { return __ddiv_rn(a, b); }
WL_DEVICE float half_to_float(u16 x) {
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(x));
  return v;
}
// Whether the GPU widens 8-bit floats itself, from sm_89 on: exactly, as the plain code in fp8.cuh does.
#if __CUDA_ARCH__ >= 890
constexpr bool WIDENS_E4M3 = true;
WL_DEVICE u16 e4m3_to_half(u16 x) {
  u32 both;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(both) : "h"(x));
  return u16(both);
}
#else
constexpr bool WIDENS_E4M3 = false;
WL_DEVICE u16 e4m3_to_half(u16) { return 0; }
#endif
WL_DEVICE u32 floats_to_halves(float low, float high) {
  u32 v;
  asm("{ .reg .b16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h}; }"
      : "=r"(v)
      : "f"(low), "f"(high));
  return v;
}
WL_DEVICE u32 floats_to_bfloats(float low, float high) {
  u32 v;
  asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(v) : "f"(low), "f"(high));
  return v;
}

}  // namespace worldline

#else
#include "host_ops.h"
#endif
