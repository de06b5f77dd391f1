// Scenarios in which something goes wrong: a slow rank, stale slots, an operation left in the middle.
#include "schedule.h"
#include "scenario.h"

namespace simulator {

// The last epoch, so that there are older ones of every distance, and the wrap is near or far.
static u32 some_epoch(Random& random) {
  return random.choice({3u, 9u, 70'001u, 0x20'0004u, 0xc000'0001u, 0xffff'fffau, 0xffff'fffcu, 0xffff'fffdu});
}

static std::vector<Call> calls(int world, int least, int most, Random& random) {
  std::vector<Call> drawn;
  for (int left = random.between(least, most); left > 0; --left)
    drawn.push_back(any_call(world, random.choice({3, 20, 60}), random));
  return drawn;
}

Scenario stale(bool lost, Random& random) {
  Scenario scenario{random.between(2, MOST_RANKS), {}};
  for (int left = random.between(2, 5); left > 0; --left)
    scenario.calls.push_back(call_with_epochs(scenario.world, random.choice({3, 20, 60}), random));
  scenario.epoch = some_epoch(random);
  scenario.older_slots = true;
  scenario.faulty = lost;
  return scenario;
}

// A wait spans three of the slow rank's kernels at most: the end of one, the next, and the one after,
// which cannot end. So each may take a quarter of the deadline, or one nearly all of it.
Scenario slow(Random& random) {
  Scenario scenario{random.between(2, MOST_RANKS), {}};
  scenario.calls = calls(scenario.world, 3, 6, random);
  scenario.slow = random.between(0, scenario.world - 1);
  const u32 count = u32(scenario.calls.size());
  constexpr u64 WHOLE = Schedule::LIMIT_NS / 128 * 127, PART = Schedule::LIMIT_NS / 4;
  if (random.chance(0.5))
    scenario.naps.push_back({u32(random.below(count)), random.below(40), WHOLE});
  else
    for (u32 call = 0; call < count; ++call)
      for (u64 left = PART; left > PART / 8; left /= 2)
        scenario.naps.push_back({call, left == PART ? 0 : random.below(80), left / 2});
  return scenario;
}

static u64 too_long(Random& random) { return Schedule::LIMIT_NS + Schedule::LIMIT_NS * u64(random.between(3, 20)) / 8; }

// The last call is for the dead lane to refuse.
Scenario late(Random& random) {
  Scenario scenario{random.between(2, MOST_RANKS), {}};
  scenario.calls = calls(scenario.world, 3, 5, random);
  scenario.slow = random.between(0, scenario.world - 1);
  scenario.late = true;
  const u32 call = u32(random.below(scenario.calls.size() - 1));
  scenario.certain = random.chance(0.5);
  scenario.naps.push_back({call, scenario.certain ? 0 : random.below(60), too_long(random)});
  return scenario;
}

// A rank is late in an operation, or never comes to it; all recover, and go on.
Scenario abandoned(Random& random) {
  Scenario scenario{random.between(2, MOST_RANKS), {}};
  scenario.calls = calls(scenario.world, 1, 3, random);
  scenario.slow = random.between(0, scenario.world - 1);
  scenario.late = true;
  const u32 call = u32(scenario.calls.size());
  scenario.certain = random.chance(0.4);
  if (scenario.certain)
    scenario.missed = call;
  else
    scenario.naps.push_back({call, random.below(60), too_long(random)});
  for (const Call& more : calls(scenario.world, 1, 2, random)) scenario.calls.push_back(more);
  scenario.recovery = scenario.calls.size();
  for (const Call& more : calls(scenario.world, 4, 6, random)) scenario.calls.push_back(more);
  return scenario;
}

}  // namespace simulator
