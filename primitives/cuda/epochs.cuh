// Epochs and their wrap; twin of epochs.py, which has the rules.
#pragma once
#include "counters.cuh"

namespace worldline {

// The epoch of the launch that finds this word: zero and one are skipped at the wrap.
WL_DEVICE u32 epoch_after(u32 word) { return word == 0xffffffffu ? 2u : word + 1; }

WL_COLD void clear_half(u64 arena, u32 epoch, u32 index, u32 threads, u64 half) {
  const u64 other = arena + LL + ((epoch + 1) & 1) * half;
  for (u64 at = u64(index) * SLOT; at < half; at += u64(threads) * SLOT)
    store_pair(reinterpret_cast<void*>(other + at), Pair{0, 0});
  // In this order: a thread's fence covers other threads' zeroes only after the barrier.
  block_barrier();
  fence_system();
}

WL_DEVICE void clear_before_wrap(u64 arena, u32 epoch, u32 index, u32 threads, u64 half) {
  if (epoch >= 0xfffffffeu) clear_half(arena, epoch, index, threads, half);
}

// Slots that alternate between two halves by the epoch of the launch.
struct Halves {
  u64 half;
  u32 epoch = 0;

  WL_DEVICE explicit Halves(u64 half) : half(half) {}
  WL_DEVICE void begin(u64 own, u32 last, u32 thread, u32 threads) {
    epoch = epoch_after(last);
    clear_before_wrap(own, epoch, thread, threads, half);
  }
  // A place by its offset from one of the even half, in bytes.
  WL_DEVICE char* slot(u64 even, u64 offset) const {
    return reinterpret_cast<char*>(even + (epoch & 1) * half + offset);
  }
};

}  // namespace worldline
