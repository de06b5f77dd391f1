// Races on plainly stored words: inside one launch, a plain store and any other thread's access of
// that word need a barrier of the block in between, and nothing orders blocks.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "failure.h"
#include "memory.h"

namespace simulator {

// Of each of the block's threads, how much of what it did a thread knows: it counts its own arrivals
// at barriers.
using Clock = std::vector<u32>;

class Races {
 public:
  void check(u32 place, u32 block, u32 thread, const Clock& clock, bool plain_store) {
    std::vector<Access>& accesses = words_[place];
    for (const Access& other : accesses) {
      if (!plain_store && !other.plain_store) continue;
      const bool same_block = other.block == block;
      if (same_block && (other.thread == thread || other.arrivals < clock[other.thread])) continue;
      fail("race on the word at offset " + std::to_string(offset_of(place)) + ": block " +
           std::to_string(block) + " thread " + std::to_string(thread) + " and block " +
           std::to_string(other.block) + " thread " + std::to_string(other.thread) +
           ", at least one of which stores plainly, are not ordered by a barrier of the block");
    }
    accesses.push_back({block, thread, clock[thread], plain_store});
  }

 private:
  struct Access {
    u32 block, thread, arrivals;
    bool plain_store;
  };
  std::unordered_map<u32, std::vector<Access>> words_;
};

}  // namespace simulator
