// The all-reduces over each protocol, as harnesses on the host call them.
#pragma once
#include "all_reduce_ll.cuh"
#include "all_reduce_ll128.cuh"
#include "all_reduce_ll128_atomic.cuh"
#include "all_reduce_sentinel.cuh"

namespace worldline {

struct OverLl {
  static constexpr int HELPERS = 0, FLOATS = Ll::WORDS, UNIT = 2;  // floats in a slot, in an access
  static constexpr u64 SLOT_BYTES = SLOT;

  template <int RANK, int WORLD, bool WIDE, bool LOOPS, class NUMBERS = Numbers<FLOAT32, SUM>>
  static void run(const AllReduce& a, int shots) {
    if (shots == 1)
      all_reduce_ll_one_shot<RANK, WORLD, NUMBERS, WIDE, LOOPS>(a);
    else
      all_reduce_ll_two_shot<RANK, WORLD, NUMBERS, WIDE, LOOPS>(a);
  }
};

struct OverLl128 {
  static constexpr int HELPERS = 0, FLOATS = LINE_DATA / 4, UNIT = 2;
  static constexpr u64 SLOT_BYTES = LINE;

  template <int RANK, int WORLD, bool WIDE, bool LOOPS, class NUMBERS = Numbers<FLOAT32, SUM>>
  static void run(const AllReduce& a, int shots) {
    if (shots == 1)
      all_reduce_ll128_one_shot<RANK, WORLD, NUMBERS, WIDE, LOOPS>(a);
    else
      all_reduce_ll128_two_shot<RANK, WORLD, NUMBERS, WIDE, LOOPS>(a);
  }
};

struct OverLl128Atomic {
  static constexpr int HELPERS = 0, FLOATS = OverLl128::FLOATS, UNIT = OverLl128::UNIT;
  static constexpr u64 SLOT_BYTES = LINE;

  template <int RANK, int WORLD, bool WIDE, bool LOOPS, class NUMBERS = Numbers<FLOAT32, SUM>>
  static void run(const AllReduce& a, int) {
    all_reduce_ll128_atomic<RANK, WORLD, NUMBERS, WIDE, LOOPS>(a);
  }
};

// BATCH: items of a thread that takes several.
template <int BATCH>
struct OverSentinel {
  static constexpr int HELPERS = WARP, FLOATS = Sentinel::WORDS, UNIT = 4;
  static constexpr u64 SLOT_BYTES = SLOT;

  template <int RANK, int WORLD, bool WIDE, bool LOOPS, class NUMBERS = Numbers<FLOAT32, SUM>>
  static void run(const AllReduce& a, int shots) {
    if (shots == 1)
      all_reduce_sentinel_one_shot<RANK, WORLD, NUMBERS, WIDE, LOOPS ? BATCH : 0>(a);
    else
      all_reduce_sentinel_two_shot<RANK, WORLD, NUMBERS, WIDE, LOOPS ? BATCH : 0>(a);
  }
};

}  // namespace worldline
