// The simulated arena's map: the true control words and counters, then regions of a few slots.
#pragma once
#include "layout.cuh"
#include "seam.h"

namespace simulator {

constexpr u32 MOST_BLOCKS = 4;
constexpr u64 SLOTS_BYTES = 4096, LINES_BYTES = 8192;
constexpr u64 HALF_BYTES = SLOTS_BYTES + LINES_BYTES;  // of the region of LL and LL128
constexpr u64 STAGE_BYTES = MOST_BLOCKS * 2 * worldline::CHANNEL;
constexpr u64 SENTINEL = worldline::LL + 2 * HALF_BYTES;
constexpr u64 SUMS = SENTINEL + 3 * STAGE_BYTES;
constexpr u64 SUM_STAGE_BYTES = LINES_BYTES / 2;
constexpr u32 ARENA_BYTES = SUMS + 3 * SUM_STAGE_BYTES;
constexpr u32 ARENA_PLACES = ARENA_BYTES / 4;

}  // namespace simulator
