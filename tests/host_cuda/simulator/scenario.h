// What a seed runs: a world and its calls.
#pragma once
#include <string>
#include <vector>

#include "memory.h"
#include "random.h"

namespace simulator {

// One all-reduce, equal on all ranks but for where it may start its successor.
struct Call {
  Protocol protocol;
  int shots;
  u64 count;
  u32 grid, threads;  // threads that take items
  bool in_place;

  bool sentinel() const { return protocol == Protocol::sentinel; }
  bool adds() const { return protocol == Protocol::ll128_atomic; }
  u64 items(int world) const;  // to share among its threads
};

struct Scenario {
  int world;
  std::vector<Call> calls;
  u32 epoch = 0;             // the one before the first call's
  bool stale_slots = false;  // all slots start as calls of the last round would have left them
  bool pieces = false;       // lines of LL128 arrive in pieces
  bool faulty = false;       // one store to a peer gets lost
  bool overlapped = false;   // rank 0 runs its first two calls at once
};

// Passes of a block of a sentinel call.
u32 passes(const Call& call, int world, u32 block);

// Draw a scenario of a named kind; "mixed" draws from everything but overlaps.
Scenario draw(const std::string& name, Random& random);
std::string describe(const Call& call);

}  // namespace simulator
