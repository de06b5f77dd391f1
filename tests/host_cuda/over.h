// The all-reduces over each protocol, as harnesses on the host call them.
#pragma once
#include "all_reduce_ll.cuh"
#include "all_reduce_sentinel.cuh"

namespace worldline {

struct OverLl {
  static constexpr int HELPERS = 0, WORDS = Ll::WORDS;

  template <int RANK, int WORLD, bool WIDE, bool LOOPS>
  static void run(const AllReduce& a, int shots) {
    if (shots == 1)
      all_reduce_ll_one_shot<RANK, WORLD, FLOAT32, WIDE, LOOPS>(a);
    else
      all_reduce_ll_two_shot<RANK, WORLD, FLOAT32, WIDE, LOOPS>(a);
  }
};

// BATCH: items of a thread that takes several.
template <int BATCH>
struct OverSentinel {
  static constexpr int HELPERS = WARP, WORDS = Sentinel::WORDS;

  template <int RANK, int WORLD, bool WIDE, bool LOOPS>
  static void run(const AllReduce& a, int shots) {
    if (shots == 1)
      all_reduce_sentinel_one_shot<RANK, WORLD, FLOAT32, WIDE, LOOPS ? BATCH : 0>(a);
    else
      all_reduce_sentinel_two_shot<RANK, WORLD, FLOAT32, WIDE, LOOPS ? BATCH : 0>(a);
  }
};

}  // namespace worldline
