// Epochs in device memory, one word per possible block; twin of epochs.py, which has the rules.
#pragma once
#include "layout.cuh"
#include "ops.cuh"

namespace worldline {

WL_DEVICE u32* epoch_word(u64 arena, u32 block) {
  return reinterpret_cast<u32*>(arena + EPOCHS) + block;
}

// The epoch of the launch that finds this word: zero and one are skipped at the wrap.
WL_DEVICE u32 epoch_after(u32 word) { return word == 0xffffffffu ? 2u : word + 1; }

// All threads share the work: one thread's loop over the words cost 8 us. Between sending and
// receiving it costs nothing; at the kernel's end its successor would wait for the stores. The
// barrier keeps the word from moving before every thread has read it.
WL_DEVICE void advance_epoch(u64 arena, u32 epoch) {
  block_barrier();
  const u32 grid = grid_blocks();
  for (u32 word = block_index() + thread_index() * grid; word < MAX_BLOCKS; word += block_threads() * grid)
    store_u32(epoch_word(arena, word), epoch);
}

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

}  // namespace worldline
