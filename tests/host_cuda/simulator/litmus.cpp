// Litmus tests of the simulated memory alone: litmus NAME prints each outcome that seeds show.
#include <bit>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "failure.h"
#include "memory.h"

using namespace simulator;

void simulator::fail(const std::string& what) { throw Failure{what}; }

namespace {

const u64 DATA = arena_base(1) + u64(worldline::LL), FLAG = DATA + 64;

// A kernel of one block and two threads.
struct Block {
  Team team{};
  Observer first{&team, {}, {}, {}}, second{&team, {}, {}, {}};
};

// Three kernels of rank 0, which run one after another, and one of its peer.
struct World {
  explicit World(u64 seed) : random(seed), memory(2, random) {
    for (Past* past : {&nothing, &pasts[0], &pasts[1]}) past->floors.resize(memory.places());
    for (Block* block : blocks) {
      block->team.rank = block == &peer;
      block->team.before = &pasts[block->team.rank];
      block->team.under_way.resize(2);
      block->team.waiting.resize(2);
    }
  }
  void store(Observer& who, u64 at, u64 value) { memory.store(who, at, 8, value); }
  u64 load(Observer& who, u64 at) { return memory.load(who, at, 8); }
  u64 exchange(Observer& who, u64 at, u64 value) { return memory.exchange(who, at, 8, value); }
  u64 newest(u64 at) { return memory.newest(at, 8); }
  void meet() { memory.barrier(one.team, {&first, &second}); }
  void end(Block& block) {
    memory.finish(block.team, {&block.first, &block.second}, pasts[block.team.rank]);
  }
  void time() {
    while (random.chance(0.8)) {
      Team& team = blocks[random.below(4)]->team;
      if (team.waiting[1] > 0) memory.drain(team, 1, 1 + u32(random.below(2)), random.chance(0.5));
    }
  }
  u64 at_last(u64 at) {
    for (int round = 0; round < 50; ++round) time();
    for (const Block* block : blocks)
      if (block->team.waiting[1] > 0) fail("a store remains under way");
    return newest(at);
  }

  Random random;
  Memory memory;
  Past nothing, pasts[2];
  Block one, two, three, peer;
  Block* const blocks[4] = {&one, &two, &three, &peer};
  Observer &first = one.first, &second = one.second;
  Observer &next = two.first, &mate = two.second, &last = three.first, &reader = peer.first;
};

using Shown = std::string;

Shown shown(u64 a, u64 b) { return std::to_string(a) + std::to_string(b); }

// A thread stores data, then it or the other arrives at a barrier where its mate waits, who fences
// and stores a flag.
Shown one_way(World& world, Observer& storer) {
  Arrivals arrivals;
  world.store(storer, DATA, 1);
  world.memory.arrive(world.first, arrivals);
  world.memory.arrive(world.second, arrivals);
  world.memory.go_on(world.second, arrivals);
  Observer& flagger = &storer == &world.first ? world.second : world.first;
  world.memory.fence(flagger);
  world.store(flagger, FLAG, 1);
  world.time();
  return shown(world.newest(FLAG), world.newest(DATA));
}

// The first thread stores data, then `flagger` a flag; shows the flag and then what is in memory.
Shown message(World& world, Observer& flagger, const char* between) {
  world.store(world.first, DATA, 1);
  for (const char* step = between; *step; ++step) {
    if (*step == 'b') world.meet();
    if (*step == 'e') world.end(world.one);
    if (*step == 'f') world.memory.fence(world.first);
    if (*step == 'F') world.memory.fence(flagger);
  }
  if (std::strchr(between, 'r'))
    world.memory.store_release(flagger, FLAG, 8, 1);
  else
    world.store(flagger, FLAG, 1);
  world.time();
  return shown(world.newest(FLAG), world.newest(DATA));
}

// What a thread loads, and some time later the same or another.
Shown loads(World& world, Observer& before, Observer& after) {
  world.time();
  const u64 found = world.load(before, DATA);
  world.time();
  return shown(found, world.load(after, DATA));
}

// The first kernel stores data and ends.
void store_and_end(World& world) {
  world.store(world.first, DATA, 1);
  world.end(world.one);
}

// So does the second.
void store_and_end_twice(World& world) {
  store_and_end(world);
  world.time();
  world.store(world.next, DATA, 2);
  world.time();
  world.end(world.two);
}

// What a line's first float becomes, in the end, of which one rank adds 1.
Shown sum_at_last(World& world, Observer& adder) {
  const u64 words[16] = {0x3f800000};
  world.memory.add_line(adder, DATA, words);
  const u64 number = world.at_last(DATA);
  return std::to_string(int(std::bit_cast<float>(u32(world.memory.line(number)[0]))));
}

void zero(World& world, Observer& owner) {
  const u64 words[16] = {};
  world.memory.store_line(owner, DATA, words);
}

const std::map<std::string, Shown (*)(World&)> TESTS = {
    {"relaxed", [](World& world) { return message(world, world.first, ""); }},
    {"release", [](World& world) { return message(world, world.first, "r"); }},
    {"fence", [](World& world) { return message(world, world.first, "f"); }},
    {"fence_after_barrier", [](World& world) { return message(world, world.second, "bF"); }},
    {"fence_before_barrier", [](World& world) { return message(world, world.second, "fFb"); }},
    {"no_barrier", [](World& world) { return message(world, world.second, "F"); }},
    {"arrives", [](World& world) { return one_way(world, world.first); }},
    {"waits", [](World& world) { return one_way(world, world.second); }},
    {"coherence",
     [](World& world) {
       world.store(world.first, DATA, 1);
       return loads(world, world.reader, world.reader);
     }},
    {"own_store",
     [](World& world) {
       world.store(world.first, DATA, 1);
       return loads(world, world.first, world.first);
     }},
    {"block_barrier",
     [](World& world) {
       world.store(world.first, DATA, 1);
       world.meet();
       return loads(world, world.second, world.second);
     }},
    {"store_buffers",
     [](World& world) {
       world.store(world.first, DATA, 1);
       world.store(world.reader, FLAG, 1);
       world.time();
       return shown(world.load(world.first, FLAG), world.load(world.reader, DATA));
     }},
    {"exchange",
     [](World& world) {
       const u64 found = world.exchange(world.reader, FLAG, 1);
       return shown(found, world.exchange(world.second, FLAG, 1));
     }},

    // Additions to a line of the peer's.
    {"additions",
     [](World& world) {
       const u64 two[16] = {0x40000000};
       world.memory.add_line(world.second, DATA, two);
       world.time();
       return sum_at_last(world, world.first);
     }},
    {"addition_to_what_is_zeroed",
     [](World& world) {
       zero(world, world.reader);
       world.time();
       return sum_at_last(world, world.first);
     }},
    {"addition_after_a_fence",
     [](World& world) {
       zero(world, world.reader);
       world.memory.fence(world.reader);
       world.store(world.reader, FLAG, 1);
       world.time();
       // Who has seen the flag adds to zero.
       return world.newest(FLAG) ? sum_at_last(world, world.first) : "1";
     }},

    // Kernels' ends: what a peer may find.
    {"end", [](World& world) { return message(world, world.next, "e"); }},
    {"end_fence", [](World& world) { return message(world, world.next, "eF"); }},
    {"end_release", [](World& world) { return message(world, world.next, "er"); }},
    {"fence_end", [](World& world) { return message(world, world.next, "fe"); }},
    {"fence_flag_end",
     [](World& world) {
       world.store(world.first, DATA, 1);
       world.memory.fence(world.first);
       world.store(world.first, FLAG, 1);
       world.end(world.one);
       world.time();
       return shown(world.newest(FLAG), world.newest(DATA));
     }},
    {"end_peer",
     [](World& world) {
       store_and_end(world);
       return loads(world, world.reader, world.reader);
     }},
    {"end_store",
     [](World& world) {
       store_and_end(world);
       world.store(world.next, DATA, 2);
       world.time();
       const u64 found = world.newest(DATA);
       return shown(found, world.at_last(DATA));
     }},
    {"ends_fence",
     [](World& world) {
       store_and_end_twice(world);
       world.memory.fence(world.last);
       world.store(world.last, FLAG, 1);
       world.time();
       return shown(world.newest(FLAG), world.newest(DATA));
     }},

    // Kernels' ends: what later kernels find.
    {"end_load",
     [](World& world) {
       store_and_end(world);
       return loads(world, world.next, world.mate);
     }},
    {"end_own_store",
     [](World& world) {
       store_and_end(world);
       world.store(world.next, DATA, 2);
       return loads(world, world.next, world.mate);
     }},
    {"end_seen",
     [](World& world) {
       world.store(world.reader, DATA, 1);
       world.time();
       const u64 found = world.load(world.second, DATA);
       world.end(world.one);
       return shown(found, world.load(world.next, DATA));
     }},
    {"end_last_store",
     [](World& world) {
       world.store(world.first, DATA, 2);
       store_and_end(world);
       return loads(world, world.next, world.mate);
     }},
    {"ends_load",
     [](World& world) {
       store_and_end_twice(world);
       return loads(world, world.last, world.last);
     }},
    {"ends_exchange",
     [](World& world) {
       store_and_end_twice(world);
       const u64 found = world.exchange(world.last, DATA, 3);
       return shown(found, world.at_last(DATA));
     }},
    {"end_fence_exchange",
     [](World& world) {
       store_and_end(world);
       world.memory.fence(world.next);
       world.exchange(world.next, FLAG, 1);
       return shown(world.newest(FLAG), world.newest(DATA));
     }},
    {"fence_end_exchange",
     [](World& world) {
       world.store(world.first, DATA, 1);
       world.memory.fence(world.first);
       world.store(world.first, FLAG, 1);
       world.end(world.one);
       const u64 found = world.exchange(world.next, FLAG, 2);
       return shown(found, world.newest(DATA));
     }},
    {"overlap",
     [](World& world) {
       world.two.team.before = &world.nothing;
       store_and_end_twice(world);
       const u64 found = world.load(world.last, DATA);
       return shown(found, world.at_last(DATA));
     }},
    {"overlap_load",
     [](World& world) {
       world.two.team.before = &world.nothing;
       store_and_end(world);
       return loads(world, world.next, world.next);
     }},
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  std::set<Shown> outcomes;
  for (u64 seed = 0; seed < 400; ++seed) {
    World world(seed);
    outcomes.insert(TESTS.at(arguments[1])(world));
  }
  for (const Shown& outcome : outcomes) std::printf("%s\n", outcome.c_str());
}
