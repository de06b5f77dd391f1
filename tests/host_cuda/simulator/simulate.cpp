// Run seeds of a scenario and check them: simulate SCENARIO FIRST END STOP.
//
// One line for each seed that failed (after the first of which STOP = 1 ends), then a line with the
// number of seeds run and of their steps. A run fails on a wrong bit, a word beside the output, a
// block that left a peer out, epochs out of step, a dead lane, a race inside a block, a hang.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>

#include "failure.h"
#include "scenario.h"
#include "schedule.h"
#include "stale.h"

using namespace simulator;

namespace {

constexpr int OPERATION = 1;
constexpr u32 GARBAGE = 0x7f7f7f7f, BESIDE = 0x5a5a5a5a, LAST_EPOCH = 0xffffffffu;
constexpr u32 ONES = 0xffffffffu, NAN_BITS = 0x7fffffffu;
constexpr size_t MARGIN = 2;

using Words = std::vector<u32>;

u32 next_count(u32 count) { return (count & ~3u) + 4 + (count % 4 + 1) % 3; }
u32 count_after(u32 count, u32 passes) {
  for (; passes > 0; --passes) count = next_count(count);
  return count;
}
u32 next_epoch(u32 epoch) { return epoch == LAST_EPOCH ? 2 : epoch + 1; }
float as_float(u32 bits) { return std::bit_cast<float>(bits); }
std::string text(u64 number) { return std::to_string(number); }

// As a GPU adds: every NaN is the same.
u32 sum(u32 a, u32 b) {
  const float value = as_float(a) + as_float(b);
  return value == value ? std::bit_cast<u32>(value) : NAN_BITS;
}

// A float whose sums are exact, in any order.
u32 whole_float(Random& random) { return std::bit_cast<u32>(float(random.between(-1000, 1000)) / 64); }

// Floats of mixed magnitude: another order of adding gives other bits.
u32 any_float(Random& random) {
  const u32 rest = u32(random.bits() & 0x807fffff);
  return rest | u32(random.between(120, 132)) << 23;
}

class Simulation {
 public:
  Simulation(const Scenario& scenario, Random& random)
      : scenario_(scenario), memory_(scenario.world + 1, random), random_(random) {
    memory_.lines_in_pieces = scenario.pieces;
    if (scenario.faulty) memory_.lost = random.below(30);
    for (int rank = 0; rank < scenario.world; ++rank) fill(arena_base(rank));
    known_.resize(size_t(scenario.world));
  }

  u64 run() {
    const int world = scenario_.world;
    sources_.resize(scenario_.calls.size(), std::vector<Words>(size_t(world)));
    targets_ = sources_;
    std::vector<std::vector<Order>> streams(static_cast<size_t>(world));
    for (size_t number = 0; number < scenario_.calls.size(); ++number) add(number, streams);
    Faults faults{scenario_.overlapped, scenario_.in_vain(), Naps(scenario_.slow, scenario_.naps),
                  [this](int rank) { known_[rank] = {control(rank, worldline::DEAD) != 0, told(rank)}; }};
    Schedule schedule(
        memory_, random_, std::move(streams), [this](const Launch& launch) { check(launch); }, std::move(faults));
    schedule.run();
    if (scenario_.overlapped)
      check_overlap();
    else if (scenario_.in_vain())
      check_faults();
    else
      check_end(0, scenario_.epoch);
    return schedule.steps;
  }

 private:
  void fill(u64 arena) {
    // The counts of stages have 30 bits, and wrap with the epochs here.
    const u32 count = scenario_.epoch << 2;
    for (int word = 0; word < worldline::MAX_BLOCKS; ++word) {
      memory_.fill(arena + worldline::EPOCHS + 4 * word, 4, scenario_.epoch);
      memory_.fill(arena + worldline::STAGES + 4 * word, 4, count);
      memory_.fill(arena + worldline::TURNS + 4 * word, 4, count);
    }
    for (u64 at = worldline::TOKENS; at < worldline::LL; at += 4) memory_.fill(arena + at, 4, count);
    for (u64 at = SENTINEL; at < SUMS; at += 8) memory_.fill(arena + at, 8, ~u64(0));
    if (scenario_.older_slots) fill_with_older(memory_, arena, scenario_.epoch, random_);
    if (!scenario_.stale_slots) return;
    // Flags 2 and 3: the first epochs after the wrap, each in its own half.
    for (u64 half = 0; half < 2; ++half) {
      const u64 flag = 2 + half, slots = arena + worldline::LL + half * HALF_BYTES;
      for (u64 at = 0; at < SLOTS_BYTES; at += 8) memory_.fill(slots + at, 8, flag << 32 | GARBAGE);
      std::vector<u64> line(16, u64(GARBAGE));
      line.back() = flag << 32 | flag;
      const u64 number = memory_.number_of(line.data());
      for (u64 at = SLOTS_BYTES; at < HALF_BYTES; at += 16) memory_.fill(slots + at, 8, number);
    }
  }

  u64 notice(int rank) const { return arena_base(scenario_.world) + 8 * u64(rank); }

  // Where a protocol's slots are, and how many bytes one source has in a half or in a block's channel.
  struct Place {
    u64 region, buffer, room, slot;
  };
  Place place_of(Protocol protocol) const {
    const u64 world = u64(scenario_.world), slot = worldline::SLOT, line = worldline::LINE, first = worldline::LL;
    if (protocol == Protocol::sentinel) {
      const u64 channel = world <= worldline::FEW_RANKS ? worldline::CHANNEL : 2 * worldline::CHANNEL;
      return {SENTINEL, STAGE_BYTES, channel / std::max<u64>(1, world - 1), slot};
    }
    if (protocol != Protocol::ll) return {first + SLOTS_BYTES, HALF_BYTES, LINES_BYTES / world, line};
    return {first, HALF_BYTES, SLOTS_BYTES / world, slot};
  }

  void add(size_t number, std::vector<std::vector<Order>>& streams) {
    const Call& call = scenario_.calls[number];
    if (scenario_.recovery > 0 && number == scenario_.recovery)
      for (int rank = 0; rank < scenario_.world; ++rank) {
        Kernel host{};
        host.rank = rank;
        host.notice = notice(rank);
        // A host is ahead of its stream, and may recover while its kernels run.
        streams[rank].push_back({host, 1, 1, 0, true});
      }
    Words sums;
    for (int rank = 0; rank < scenario_.world; ++rank) {
      Words& source = sources_[number][rank];
      // Now and then two floats that look like half an empty sentinel slot.
      bool ones = false;
      for (u64 i = 0; i < call.count; ++i) {
        if (i % 2 == 0) ones = random_.chance(0.03);
        source.push_back(ones ? ONES : call.adds() ? whole_float(random_) : any_float(random_));
        if (rank == 0)
          sums.push_back(source[i]);
        else
          sums[i] = sum(sums[i], source[i]);
      }
      source.resize(call.count + MARGIN, BESIDE);
      Words& target = targets_[number][rank];
      if (!call.in_place) target.resize(call.count + MARGIN, BESIDE);
      Kernel kernel{};
      for (int peer = 0; peer < scenario_.world; ++peer) kernel.base[peer] = arena_base(peer);
      kernel.limit_ns = Schedule::LIMIT_NS;
      kernel.notice = notice(rank);
      kernel.rank = rank;
      kernel.world = scenario_.world;
      kernel.operation = OPERATION;
      kernel.shots = call.shots;
      kernel.protocol = call.protocol;
      kernel.source = source.data();
      kernel.target = call.in_place ? source.data() : target.data();
      kernel.count = call.count;
      const Place place = place_of(call.protocol);
      kernel.region = place.region;
      kernel.buffer = place.buffer;
      kernel.stride = place.room / place.slot / u64(call.shots) * (place.slot / worldline::SLOT);
      kernel.sums = SUMS;
      kernel.sum_stage = SUM_STAGE_BYTES;
      kernel.launch_point = u32(random_.between(0, 2));
      kernel.wide = random_.chance(0.5);
      const bool overlaps = scenario_.overlapped && rank == 0 && number == 1;
      const u32 threads = call.threads + (call.sentinel() ? 1 : 0);
      if (!missed(number, rank))
        streams[rank].push_back({kernel, call.grid, threads, overlaps ? 0 : u32(streams[rank].size())});
    }
    expected_.push_back(std::move(sums));
  }

  const Words& output(size_t number, int rank) const {
    return (scenario_.calls[number].in_place ? sources_ : targets_)[number][rank];
  }

  bool missed(size_t number, int rank) const {
    return rank == scenario_.slow && number >= scenario_.missed && number < scenario_.recovery;
  }
  u64 control(int rank, int offset) const { return memory_.newest(arena_base(rank) + offset, 8); }
  bool told(int rank) const { return memory_.newest(notice(rank), 8) == 1; }

  // A launch of an ordered run, as it ends.
  void check(const Launch& launch) const {
    if (scenario_.overlapped || scenario_.in_vain()) return;
    const Call& call = scenario_.calls[launch.call];
    const std::string where = "rank " + text(launch.rank) + " call " + text(launch.call) + " (" +
                              describe(call) + "): ";
    check_alive(where);
    const u32 peers = ((1u << scenario_.world) - 1) & ~(1u << launch.rank);
    for (size_t block = 0; block < launch.blocks.size(); ++block) {
      const Team& team = launch.blocks[block]->team;
      if (call.sentinel()) continue;  // its tokens do for this
      if ((team.sent & peers) != peers || (team.heard & peers) != peers)
        fail(where + "block " + text(block) + " sent nothing to, or heard nothing from, a peer");
    }
    const Words& output = this->output(launch.call, launch.rank);
    for (u64 i = 0; i < call.count; ++i)
      if (output[i] != expected_[launch.call][i])
        fail(where + "wrong result: element " + text(i) + " is " +
             std::to_string(as_float(output[i])) + ", not " +
             std::to_string(as_float(expected_[launch.call][i])));
    for (size_t i = 0; i < MARGIN; ++i)
      if (output[call.count + i] != BESIDE) fail(where + "a word behind the output was written");
  }

  // What is visible so far.
  void check_alive(const std::string& where) const {
    for (int rank = 0; rank < scenario_.world; ++rank)
      if (control(rank, worldline::DEAD) || memory_.newest(notice(rank), 8))
        fail(where + "the lane is dead");
  }

  // Of the calls from `first` on, with `before` in all counters before them.
  void check_end(size_t first, u32 before) const {
    check_alive("after the last call: ");
    const std::vector<Call> calls(scenario_.calls.begin() + std::ptrdiff_t(first), scenario_.calls.end());
    u32 epoch = before, turn = before << 2;
    for (const Call& call : calls) {
      if (!call.sentinel()) epoch = next_epoch(epoch);
      if (call.adds()) turn = next_count(turn);
    }
    for (int word = 0; word < worldline::MAX_BLOCKS; ++word) {
      u32 count = before << 2;
      for (const Call& call : calls)
        if (call.sentinel()) count = count_after(count, passes(call, scenario_.world, u32(word)));
      for (int rank = 0; rank < scenario_.world; ++rank)
        if (memory_.newest(arena_base(rank) + worldline::EPOCHS + 4 * word, 4) != epoch ||
            memory_.newest(arena_base(rank) + worldline::TURNS + 4 * word, 4) != turn ||
            memory_.newest(arena_base(rank) + worldline::STAGES + 4 * word, 4) != count)
          fail("epochs out of step: rank " + text(rank) + " word " + text(word));
    }
  }

  // Two calls of rank 0 ran at once: every rank must know, and no later call may give a number.
  void check_overlap() const {
    if (control(0, worldline::OVERLAPPED) != OPERATION + 1) fail("the overlap was not reported");
    for (int rank = 0; rank < scenario_.world; ++rank)
      if (control(rank, worldline::DEAD) == 0) fail("rank " + text(rank) + "'s lane lives on");
    check_refused();
  }

  // The last call came to a dead lane.
  void check_refused() const {
    const size_t last = scenario_.calls.size() - 1;
    for (int rank = 0; rank < scenario_.world; ++rank) {
      if (!told(rank)) fail("rank " + text(rank) + "'s host was not told");
      for (u64 i = 0; i < scenario_.calls[last].count; ++i)
        if (output(last, rank)[i] != NAN_BITS) fail("rank " + text(rank) + " has a number from a dead lane");
    }
  }

  // Waits may have been in vain. Up to the recovery, if there is one, all sums are right all the same,
  // or all ranks know and no number is wrong; after it they are right.
  void check_faults() {
    const size_t recovery = scenario_.recovery, calls = scenario_.calls.size();
    if (recovery == 0)
      for (int rank = 0; rank < scenario_.world; ++rank) known_[rank] = {control(rank, worldline::DEAD) != 0, told(rank)};
    bool dead = false;
    for (const Known& known : known_) dead |= known.dead;
    for (int rank = 0; rank < scenario_.world; ++rank) {
      // A rank whose kernels had all ended learns of it with its next call.
      if (!exact_or_nan(rank, 0, recovery > 0 ? recovery : calls) && !known_[rank].told)
        fail("rank " + text(rank) + "'s host was not told");
      if (recovery > 0 && !exact_or_nan(rank, recovery, calls)) fail("rank " + text(rank) + " has NaN after the recovery");
    }
    for (int rank = 0; rank < scenario_.world; ++rank)
      if (dead && !known_[rank].dead) fail("rank " + text(rank) + "'s lane lives on");
    if (scenario_.certain && !dead) fail("nobody noticed that a rank was late");
    if (recovery > 0) return check_end(recovery, 0);
    if (dead) check_records();
    if (scenario_.certain) check_refused();
  }

  // The dead words name ranks that have a record of a wait for another.
  void check_records() const {
    for (int rank = 0; rank < scenario_.world; ++rank) {
      const int reporter = int(control(rank, worldline::DEAD)) - 1;
      const auto field = [&](int word) { return control(reporter, worldline::RECORD + 8 * word); };
      const bool whole = field(worldline::RECORD_WORDS) == 1 && field(0) == OPERATION && int(field(2)) == reporter;
      if (!whole || int(field(3)) == reporter || field(3) >= u64(scenario_.world)) fail("no record of who was waited for");
    }
  }

  // Returns whether all sums of a rank's calls are right; what is not, must be NaN.
  bool exact_or_nan(int rank, size_t first, size_t end) const {
    bool exact = true;
    for (size_t number = first; number < end; ++number)
      for (u64 i = 0; i < scenario_.calls[number].count && !missed(number, rank); ++i) {
        const u32 found = output(number, rank)[i];
        if (found == expected_[number][i]) continue;
        exact = false;
        if (found != NAN_BITS)
          fail("rank " + text(rank) + " call " + text(number) + " (" + describe(scenario_.calls[number]) +
               "): wrong number: element " + text(i) + " is " + std::to_string(as_float(found)));
      }
    return exact;
  }

  const Scenario& scenario_;
  Memory memory_;
  Random& random_;
  std::vector<std::vector<Words>> sources_, targets_;  // by call and rank
  std::vector<Words> expected_;                        // by call
  struct Known {
    bool dead = false, told = false;
  };
  std::vector<Known> known_;  // by rank: of its lane's death, at the end or before it recovers
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return 2;
  const u64 first = std::strtoull(arguments[2], nullptr, 10);
  const u64 end = std::strtoull(arguments[3], nullptr, 10);
  const bool stop = std::atoi(arguments[4]) != 0;
  u64 runs = 0, steps = 0;
  bool failed = false;
  for (u64 seed = first; seed < end && !(failed && stop); ++seed) {
    Random random(seed);
    ++runs;
    try {
      const Scenario scenario = draw(arguments[1], random);
      steps += Simulation(scenario, random).run();
    } catch (const Failure& failure) {
      std::printf("seed %llu: %s\n", seed, failure.what.c_str());
      failed = true;
    }
  }
  std::printf("%llu seeds, %llu steps\n", runs, steps);
  return failed;
}
