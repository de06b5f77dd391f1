// Litmus tests of the simulated memory alone: litmus NAME prints each outcome that seeds show.
#include <cstdio>
#include <cstring>
#include <set>
#include <string>

#include "failure.h"
#include "memory.h"

using namespace simulator;

void simulator::fail(const std::string& what) { throw Failure{what}; }

namespace {

// Two blocks of different ranks; the left one has two threads.
struct World {
  explicit World(u64 seed)
      : random(seed), memory(2, random), floors(memory.places()), left{}, right{} {
    int rank = 0;
    for (Team* team : {&left, &right}) {
      team->rank = rank++;
      team->before = &floors;
      team->under_way.resize(2);
      team->waiting.resize(2);
    }
    first.team = second.team = &left;
    reader.team = &right;
  }
  void store(Observer& who, u64 at, u64 value) { memory.store(who, at, 8, value); }
  u64 load(Observer& who, u64 at) { return memory.load(who, at, 8); }
  void meet() { memory.barrier(left, {&first, &second}); }
  void time() {
    for (Team* team : {&left, &right})
      while (team->waiting[1] > 0 && random.chance(0.7))
        memory.drain(*team, 1, 1 + u32(random.below(2)), random.chance(0.5));
  }

  Random random;
  Memory memory;
  std::vector<u32> floors;
  Team left, right;
  Observer first{}, second{}, reader{};
};

const u64 DATA = arena_base(1) + u64(worldline::LL), FLAG = DATA + 64;
using Shown = std::string;

Shown shown(u64 a, u64 b) { return std::to_string(a) + std::to_string(b); }

// The first thread stores data, then `flagger` a flag; shows the flag and then what is in memory.
Shown message(World& world, Observer& flagger, const char* between) {
  world.store(world.first, DATA, 1);
  for (const char* step = between; *step; ++step) {
    if (*step == 'b') world.meet();
    if (*step == 'f') world.memory.fence(world.first);
    if (*step == 'F') world.memory.fence(flagger);
  }
  if (std::strchr(between, 'r'))
    world.memory.store_release(flagger, FLAG, 8, 1);
  else
    world.store(flagger, FLAG, 1);
  world.time();
  return shown(world.memory.newest(FLAG, 8), world.memory.newest(DATA, 8));
}

Shown run(const std::string& name, u64 seed) {
  World world(seed);
  if (name == "relaxed") return message(world, world.first, "");
  if (name == "release") return message(world, world.first, "r");
  if (name == "fence") return message(world, world.first, "f");
  if (name == "fence_after_barrier") return message(world, world.second, "bF");
  if (name == "fence_before_barrier") return message(world, world.second, "fFb");
  if (name == "no_barrier") return message(world, world.second, "F");
  world.store(world.first, DATA, 1);
  if (name == "coherence") {
    world.time();
    const u64 before = world.load(world.reader, DATA);
    return shown(before, world.load(world.reader, DATA));
  }
  if (name == "own_store") {
    world.time();
    return shown(world.load(world.first, DATA), 0);
  }
  if (name == "block_barrier") {
    world.meet();
    world.time();
    return shown(world.load(world.second, DATA), 0);
  }
  if (name == "store_buffers") {
    world.store(world.reader, FLAG, 1);
    world.time();
    return shown(world.load(world.first, FLAG), world.load(world.reader, DATA));
  }
  if (name == "exchange") {
    const u64 found = world.memory.exchange(world.reader, FLAG, 8, 1);
    return shown(found, world.memory.exchange(world.second, FLAG, 8, 1));
  }
  if (name == "kernel_end") {
    world.memory.finish(world.left, {&world.first, &world.second}, world.floors);
    return shown(world.load(world.reader, DATA), 0);
  }
  fail("no litmus test is named " + name);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  std::set<Shown> outcomes;
  for (u64 seed = 0; seed < 400; ++seed) outcomes.insert(run(arguments[1], seed));
  for (const Shown& outcome : outcomes) std::printf("%s\n", outcome.c_str());
}
