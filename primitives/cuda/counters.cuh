// Counters in device memory, one word per possible block; twin of counters.py, which has the rules.
#pragma once
#include "layout.cuh"
#include "ops.cuh"

namespace worldline {

// A block's word of the counter whose words start at `offset`.
WL_DEVICE u32* block_word(u64 arena, int offset, u32 block) {
  return reinterpret_cast<u32*>(arena + offset) + block;
}

// Count and stage that follow this word's, of a counter with three stages: the count is in steps of
// four, the stage in the two low bits goes round by itself, and where the count wraps as well.
WL_DEVICE u32 stage_after(u32 word) { return (word & 3) == 2 ? word + 2 : word + 5; }

// All threads share the work: one thread's loop over the words cost 8 us. Between sending and
// receiving it costs nothing; at the kernel's end its successor would wait for the stores. The
// barrier keeps the word from moving before every thread has read it.
WL_DEVICE void advance_words(u64 arena, int offset, u32 value) {
  block_barrier();
  const u32 grid = grid_blocks();
  for (u32 word = block_index() + thread_index() * grid; word < MAX_BLOCKS; word += block_threads() * grid)
    store_u32(block_word(arena, offset, word), value);
}

}  // namespace worldline
