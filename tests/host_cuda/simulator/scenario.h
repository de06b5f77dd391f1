// What a seed runs: a world and its calls.
#pragma once
#include <string>
#include <vector>

#include "memory.h"
#include "naps.h"
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
  bool older_slots = false;  // slots start as calls of any older epochs would have left them
  int slow = -1;             // the rank that naps
  std::vector<Nap> naps{};   // within the deadline of its peers' waits, unless it is late
  bool late = false;         // they may be in vain
  bool certain = false;      // and some are
  size_t missed = ~size_t(0);  // from which call on the slow rank makes none before it recovers
  size_t recovery = 0;       // before which call all ranks recover; 0: never

  bool in_vain() const { return faulty || late; }
};

// Passes of a block of a sentinel call.
u32 passes(const Call& call, int world, u32 block);

Call any_call(int world, u64 most, Random& random);
Call call_with_epochs(int world, u64 most, Random& random);
Scenario stale(bool lost, Random& random);
Scenario slow(Random& random);
Scenario late(Random& random);
Scenario abandoned(Random& random);

// Draw a scenario of a named kind; "mixed" draws from everything but what goes wrong.
Scenario draw(const std::string& name, Random& random);
std::string describe(const Call& call);

}  // namespace simulator
