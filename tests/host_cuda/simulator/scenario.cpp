#include "scenario.h"

#include <algorithm>
#include <cstdio>

#include "failure.h"

namespace simulator {

constexpr u32 BEFORE_WRAP = 0xffffffffu;

static u64 floats(Protocol protocol) {
  return protocol == Protocol::ll ? 2 : protocol == Protocol::sentinel ? 4 : worldline::LINE_DATA / 4;
}

static u64 room(Protocol protocol) {  // for slots of a launch
  return protocol == Protocol::ll ? SLOTS_BYTES / u64(worldline::SLOT) : LINES_BYTES / u64(worldline::LINE);
}

u64 Call::items(int world) const {
  const u64 per_item = floats(protocol), all = (count + per_item - 1) / per_item;
  return shots == 1 ? all : (all + u64(world) - 1) / u64(world);
}

u32 passes(const Call& call, int world, u32 block) {
  const u64 items = call.items(world), batch = items > u64(call.grid) * call.threads ? BATCH : 1;
  const u64 first = block * call.threads * batch, step = call.grid * call.threads * batch;
  return block < call.grid && first < items ? u32((items - first - 1) / step + 1) : 0;
}

// A launch has no more blocks than items for them: each block of LL must exchange a slot with each
// peer. LL's slots and lines have room for one launch, a sentinel call takes any count.
static Call call(Protocol protocol, int world, int shots, u64 most, u32 grid, u32 threads, Random& random) {
  if (protocol == Protocol::ll128_atomic) shots = 2;
  const u64 shares = shots == 2 ? u64(world) : 1;
  const u64 held = floats(protocol) * (room(protocol) / u64(world) / u64(shots)) * shares;
  // Lines take many elements.
  if (protocol == Protocol::ll128 || protocol == Protocol::ll128_atomic) most *= 10;
  const u64 count = 1 + random.below(protocol == Protocol::sentinel ? most : std::min(most, held));
  Call drawn{protocol, shots, count, grid, threads, random.chance(0.5)};
  drawn.grid = std::min(grid, u32((drawn.items(world) + threads - 1) / threads));
  return drawn;
}

static Call any(Protocol protocol, int world, u64 most, Random& random) {
  const int shots = random.between(1, 2);
  const u32 grid = u32(random.between(1, 4));
  return call(protocol, world, shots, most, grid, random.choice({1u, 2u, 4u}), random);
}

static Protocol any_protocol(Random& random) {
  return random.choice({Protocol::ll, Protocol::ll128, Protocol::ll128_atomic, Protocol::sentinel, Protocol::sentinel});
}

// Over one of the protocols that share epochs.
static Protocol with_epochs(Random& random) {
  return random.choice({Protocol::ll, Protocol::ll128, Protocol::ll128_atomic});
}

Call any_call(int world, u64 most, Random& random) { return any(any_protocol(random), world, most, random); }
Call call_with_epochs(int world, u64 most, Random& random) { return any(with_epochs(random), world, most, random); }

// Few items to a thread, so that a rank is often a whole operation ahead of another.
static Scenario small(Protocol protocol, Random& random) {
  Scenario scenario{random.between(2, 3), {}};
  const int calls = protocol == Protocol::sentinel ? 7 : 4;
  for (int i = 0; i < calls; ++i)
    scenario.calls.push_back(
        call(protocol, scenario.world, 1, 12, 2, random.choice({1u, 2u, 4u}), random));
  return scenario;
}

// Any calls, of which one store to a peer gets lost.
static Scenario lost(Random& random) {
  Scenario scenario{random.between(2, 3), {}};
  for (int i = 0; i < 3; ++i)
    scenario.calls.push_back(any(any_protocol(random), scenario.world, random.choice({3, 20}), random));
  scenario.faulty = true;
  return scenario;
}

// Lines, now and then amid LL's slots: halves alternate with epochs that both count.
static Scenario lines(bool pieces, Random& random) {
  Scenario scenario{random.between(2, 3), {}};
  scenario.pieces = pieces;
  for (int i = 0; i < 5; ++i)
    scenario.calls.push_back(call(random.chance(0.2) ? Protocol::ll : Protocol::ll128, scenario.world,
                                  random.between(1, 2), random.choice({3, 12, 30}), u32(random.between(1, 3)),
                                  random.choice({1u, 2u}), random));
  return scenario;
}

// Sums that peers add to, now and then amid others: stages go round by a count of their own.
static Scenario sums(bool pieces, Random& random) {
  Scenario scenario{random.between(2, 3), {}};
  scenario.pieces = pieces;
  const double others = random.choice({0.0, 0.2, 0.5});
  for (int i = 0; i < 8; ++i)
    scenario.calls.push_back(call(random.chance(others) ? with_epochs(random) : Protocol::ll128_atomic, scenario.world,
                                  random.between(1, 2), random.choice({3, 12}), u32(random.between(1, 3)),
                                  random.choice({1u, 2u}), random));
  scenario.epoch = random.choice({0u, BEFORE_WRAP - 3});
  return scenario;
}

// Sentinel operations of both shots and several grids: who fills a slot next changes.
static Scenario stages(Random& random) {
  Scenario scenario{random.between(2, 3), {}};
  for (int i = 0; i < 8; ++i)
    scenario.calls.push_back(call(Protocol::sentinel, scenario.world, random.between(1, 2), 40, u32(random.between(1, 3)),
                                  random.choice({1u, 2u}), random));
  return scenario;
}

// Sentinel operations of several passes, some of one: blocks get out of step with each other.
static Scenario passes(Random& random) {
  Scenario scenario{random.between(2, 3), {}};
  for (int i = 0; i < 3; ++i)
    scenario.calls.push_back(call(Protocol::sentinel, scenario.world, random.between(1, 2), random.choice({12, 80, 80}),
                                  u32(random.between(1, 3)), random.choice({1u, 2u}), random));
  return scenario;
}

// Sentinel operations of several passes and of one by turns: whose token covers what changes.
static Scenario turns(Random& random) {
  Scenario scenario{random.between(2, 3), {}};
  const u32 grid = u32(random.between(1, 2));
  for (int i = 0; i < 6; ++i)
    scenario.calls.push_back(
        call(Protocol::sentinel, scenario.world, 1, i % 3 == 0 ? 60 : 4 * grid, grid, 1, random));
  return scenario;
}

// Few sentinel operations, each after several LL ones.
static Scenario between(Random& random) {
  Scenario scenario{random.between(2, 3), {}};
  for (int i = 0; i < 8; ++i)
    scenario.calls.push_back(call(i % 3 == 0 ? Protocol::sentinel : with_epochs(random), scenario.world, 1, 8, 1, 2, random));
  return scenario;
}

static Scenario grids(Random& random) {
  Scenario scenario{random.between(2, 3), {}};
  const int shots = random.between(1, 2);
  for (int i = 0; i < 5; ++i)
    scenario.calls.push_back(
        call(any_protocol(random), scenario.world, shots, 200, u32(1 + i * 3 % 4), 2, random));
  return scenario;
}

static Scenario mixed(Random& random) {
  Scenario scenario{random.between(2, 3), {}};
  const int calls = random.between(3, 5);
  for (int i = 0; i < calls; ++i)
    scenario.calls.push_back(any(any_protocol(random), scenario.world, random.choice({3, 20, 250}), random));
  scenario.epoch = random.choice({0u, 0u, 0u, BEFORE_WRAP - 1, BEFORE_WRAP - 2, BEFORE_WRAP - 3});
  return scenario;
}

// Small calls up to the wrap, then large ones, over slots left from the last round.
static Scenario wrap(Random& random) {
  Scenario scenario{random.between(2, 3), {}};
  const int before = random.between(2, 3);
  for (int i = 0; i < before + 2; ++i)
    scenario.calls.push_back(any(with_epochs(random), scenario.world, i < before ? 8 : 250, random));
  scenario.epoch = BEFORE_WRAP - u32(before);
  scenario.stale_slots = true;
  return scenario;
}

// Calls around the last epochs before the wrap, whose zeroes race with what comes next: one or two
// elements, where most threads only zero, then more, which go where those threads zeroed.
static Scenario clears(Random& random) {
  Scenario scenario{random.between(2, 3), {}};
  const u32 threads = random.choice({2u, 4u});
  for (int i = 0; i < 4; ++i)
    scenario.calls.push_back(
        call(with_epochs(random), scenario.world, random.between(1, 2), i % 2 == 0 ? 2 : 24, 2, threads, random));
  scenario.epoch = BEFORE_WRAP - u32(random.between(2, 3));
  return scenario;
}

// The third call is for the dead lane to refuse.
static Scenario overlap(Random& random) {
  Scenario scenario{random.between(2, 3), {}};
  for (int i = 0; i < 3; ++i) scenario.calls.push_back(any(any_protocol(random), scenario.world, 20, random));
  scenario.overlapped = true;
  return scenario;
}

Scenario draw(const std::string& name, Random& random) {
  if (name == "small") return small(Protocol::ll, random);
  if (name == "sentinel") return small(Protocol::sentinel, random);
  if (name == "lost") return lost(random);
  if (name == "lines") return lines(false, random);
  if (name == "pieces") return lines(true, random);
  if (name == "sums") return sums(false, random);
  if (name == "sums_in_pieces") return sums(true, random);
  if (name == "stages") return stages(random);
  if (name == "passes") return passes(random);
  if (name == "turns") return turns(random);
  if (name == "between") return between(random);
  if (name == "grids") return grids(random);
  if (name == "mixed") return mixed(random);
  if (name == "wrap") return wrap(random);
  if (name == "clears") return clears(random);
  if (name == "overlap") return overlap(random);
  if (name == "stale") return stale(false, random);
  if (name == "stale_lost") return stale(true, random);
  if (name == "slow") return slow(random);
  if (name == "late") return late(random);
  if (name == "abandoned") return abandoned(random);
  fail("no scenario is named " + name);
}

std::string describe(const Call& call) {
  constexpr const char* names[] = {"LL", "LL128", "LL128-atomic", "sentinel"};
  char text[120];
  std::snprintf(text, sizeof text, "%s %s-shot, %llu elements, %u blocks of %u threads%s",
                names[int(call.protocol)], call.shots == 1 ? "one" : "two", call.count, call.grid, call.threads,
                call.in_place ? ", in place" : "");
  return text;
}

}  // namespace simulator
