// A slow rank: it stands still now and then, with all its threads and its stores under way.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "seam.h"

namespace simulator {

struct Nap {
  u32 call;   // of the rank's kernels
  u64 point;  // at which of its operations: 0 before all
  u64 ns;
};

class Naps {
 public:
  Naps() = default;
  Naps(int rank, std::vector<Nap> naps) : rank_(rank), naps_(std::move(naps)) {}

  int rank() const { return rank_; }
  u64 until() const { return until_; }
  bool asleep(int rank, u64 now) const { return rank == rank_ && now < until_; }
  // A thread of a rank's kernel comes to an operation; returns whether it has to stop there.
  bool come(int rank, u32 call, u64 now) {
    if (rank != rank_) return false;
    if (points_.size() <= call) points_.resize(call + 1);
    const u64 point = points_[call]++;
    for (const Nap& nap : naps_)
      if (nap.call == call && nap.point == point) until_ = std::max(until_, now) + nap.ns;
    return asleep(rank, now);
  }

 private:
  int rank_ = -1;
  std::vector<Nap> naps_;
  std::vector<u64> points_;  // by kernel: operations so far
  u64 until_ = 0;
};

}  // namespace simulator
