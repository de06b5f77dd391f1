#include "stale.h"

namespace simulator {

// An epoch of a half's, from the first of the round to the last that has used it; or 0, for none.
static u32 older(u32 half, u32 last, Random& random) {
  const u32 newest = last - ((last ^ half) & 1), first = 2 + half;
  // Further ones share low bits with the next epoch to use the half, or its sign.
  const u32 back = random.choice({0u, 2u, (1u << 8) - 2, (1u << 16) - 2, (1u << 31) - 2});
  const u32 epoch = random.chance(0.3) ? first : newest - back;
  return epoch >= first && epoch <= newest ? epoch : 0;
}

static u32 data(u32 last, Random& random) { return random.chance(0.5) ? last + 1 + u32(random.below(4)) : u32(random.bits()); }

void fill_with_older(Memory& memory, u64 arena, u32 last, Random& random) {
  for (u32 half = 0; half < 2; ++half) {
    const u64 slots = arena + worldline::LL + half * HALF_BYTES;
    for (u64 at = 0; at < SLOTS_BYTES; at += 8)
      if (const u32 epoch = older(half, last, random)) memory.fill(slots + at, 8, u64(epoch) << 32 | data(last, random));
    for (u64 at = SLOTS_BYTES; at < HALF_BYTES; at += u64(worldline::LINE)) {
      const u32 epoch = older(half, last, random);
      u64 words[16];
      for (u64& word : words) word = u64(data(last, random)) << 32 | data(last, random);
      words[15] = u64(epoch) << 32 | epoch;
      if (epoch) memory.fill(slots + at, 8, memory.number_of(words));
    }
  }
}

}  // namespace simulator
