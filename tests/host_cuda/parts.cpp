// The CUDA collectives of parts on host threads: ranks x blocks x threads of one process, bits checked.
//
// Usage: parts PROTOCOL COLLECTIVE ROUNDS BYTES EPOCH DEADLINE_MS. Rounds are of 1 to BYTES bytes, at
// random. Exits 0 when every byte is right, 1 when one is wrong, 2 when a lane died. Build with
// -DWL_WORLD=..., -fsanitize=thread.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "counters.cuh"
#include "parts.cuh"
#include "threads.h"

using namespace worldline;

constexpr int BLOCKS = 2, WORKERS = 4, BATCH = 2, ROOT = WL_WORLD - 1;
constexpr u64 SLOTS = 1 << 15, HALF = 2 * SLOTS, ARENA_BYTES = LL + 2 * HALF;

// kernels/parts.py has the same.
struct Rule {
  const char* name;
  bool spread, gathered, from_root, to_root, reduces;
  bool flows(int from, int to) const { return (!from_root || from == ROOT) && (!to_root || to == ROOT); }
  u64 sent(int to, u64 bytes) const { return spread ? to * bytes : 0; }
  u64 taken(int from, u64 bytes) const { return gathered ? from * bytes : 0; }
};
constexpr Rule RULES[] = {
    {"all_gather", false, true, false, false, false}, {"broadcast", false, false, true, false, false},
    {"gather", false, true, false, true, false},      {"scatter", true, false, true, false, false},
    {"all_to_all", true, true, false, false, false},  {"reduce_scatter", true, false, false, false, true},
    {"reduce", false, false, false, true, true},
};

template <class PROTOCOL>
u64 items(u64 bytes) {
  const u64 of = PROTOCOL::WORDS == 2 ? ITEM : LINE_DATA;
  return (bytes + of - 1) / of;
}

template <class PROTOCOL, int RANK, int UNIT, bool SAME, bool REDUCES>
void launch_form(const Parts& a, u64 largest) {
  if (largest <= u64(place.blocks) * WORKERS)
    exchange_parts<PROTOCOL, RANK, WL_WORLD, UNIT, SAME, REDUCES, Numbers<FLOAT32, SUM>, 0>(a);
  else
    exchange_parts<PROTOCOL, RANK, WL_WORLD, UNIT, SAME, REDUCES, Numbers<FLOAT32, SUM>, PROTOCOL::RING ? BATCH : 1>(a);
}

template <class PROTOCOL, int RANK>
void launch_rank(const Parts& a, const Rule& rule, u64 bytes) {
  const u64 largest = items<PROTOCOL>(bytes);
  const bool wide = bytes % 8 == 0;
  if (rule.reduces) {
    if (rule.spread)
      launch_form<PROTOCOL, RANK, 4, false, true>(a, largest);
    else
      launch_form<PROTOCOL, RANK, 4, true, true>(a, largest);
  } else if (rule.spread) {
    wide ? launch_form<PROTOCOL, RANK, 8, false, false>(a, largest) : launch_form<PROTOCOL, RANK, 1, false, false>(a, largest);
  } else {
    wide ? launch_form<PROTOCOL, RANK, 8, true, false>(a, largest) : launch_form<PROTOCOL, RANK, 1, true, false>(a, largest);
  }
}

template <class PROTOCOL, int... RANKS>
void launch_as(int rank, const Parts& a, const Rule& rule, u64 bytes, std::integer_sequence<int, RANKS...>) {
  ((rank == RANKS ? launch_rank<PROTOCOL, RANKS>(a, rule, bytes) : void()), ...);
}

template <class PROTOCOL>
int race(const Rule& rule, int rounds, u64 most, u32 epoch, u64 limit_ns) {
  constexpr bool LINES = PROTOCOL::RING;
  const u64 slot_bytes = LINES ? LINE : SLOT, room = (LINES ? HALF - SLOTS : SLOTS) / WL_WORLD / SLOT;
  std::vector<std::vector<u64>> arenas(WL_WORLD, std::vector<u64>(ARENA_BYTES / 8 + 16));
  std::vector<u64> base(WL_WORLD), notice(WL_WORLD), sizes(rounds);
  std::vector<std::vector<std::vector<u64>>> in(WL_WORLD), out(WL_WORLD);
  std::mt19937 random(1);
  for (u64& size : sizes) {
    size = 1 + random() % most;
    if (rule.reduces) size = (size + 3) / 4 * 4;
  }
  for (int r = 0; r < WL_WORLD; ++r) {
    base[r] = (u64(arenas[r].data()) + 127) / 128 * 128;
    for (u32 b = 0; b < u32(MAX_BLOCKS); ++b) *block_word(base[r], EPOCHS, b) = epoch;
    for (int round = 0; round < rounds; ++round) {
      const u64 words = (sizes[round] * WL_WORLD + 7) / 8;
      in[r].emplace_back(words);
      out[r].emplace_back(words);
      for (u64& word : in[r].back()) {
        word = u64(random()) << 32 | random();
        // Sums of these are exact.
        if (rule.reduces) word = u64(float_to_bits(float(word >> 40 & 255))) << 32 | float_to_bits(float(word & 255));
      }
    }
  }
  on_every_thread(WL_WORLD, rounds, BLOCKS, WORKERS, [&](int r, int round) {
    const u64 bytes = sizes[round];
    Parts a{};
    for (int p = 0; p < WL_WORLD; ++p) a.lane.base[p] = base[p];
    a.lane.limit_ns = limit_ns;
    a.lane.notice = u64(&notice[r]);
    a.lane.rank = r;
    a.lane.world = WL_WORLD;
    a.source = in[r][round].data();
    a.target = out[r][round].data();
    for (int p = 0; p < WL_WORLD; ++p) {
      a.send_at[p] = rule.sent(p, bytes);
      a.send[p] = rule.flows(r, p) ? bytes : 0;
      a.send_items[p] = items<PROTOCOL>(a.send[p]);
      a.take_at[p] = rule.taken(p, bytes);
      a.take[p] = rule.flows(p, r) ? bytes : 0;
      a.take_items[p] = items<PROTOCOL>(a.take[p]);
      a.items = std::max({a.items, a.send_items[p], a.take_items[p]});
    }
    if (!rule.spread && rule.flows(r, ROOT)) a.send[r] = bytes;
    a.region = LL + (LINES ? SLOTS : 0);
    a.buffer = HALF;
    a.stride = room / (slot_bytes / SLOT) * (slot_bytes / SLOT);
    place.blocks = u32(std::min(u64(BLOCKS), (items<PROTOCOL>(bytes) + WORKERS - 1) / WORKERS));
    if (place.block < place.blocks)
      launch_as<PROTOCOL>(r, a, rule, bytes, std::make_integer_sequence<int, WL_WORLD>());
  });
  int wrong = 0;
  for (int round = 0; round < rounds; ++round)
    for (int r = 0; r < WL_WORLD; ++r) {
      const u64 bytes = sizes[round];
      const char* found = reinterpret_cast<const char*>(out[r][round].data());
      std::vector<char> expected(8 * out[r][round].size());
      for (int p = 0; p < WL_WORLD; ++p) {
        if (!rule.flows(p, r)) continue;
        const char* sent = reinterpret_cast<const char*>(in[p][round].data()) + rule.sent(r, bytes);
        char* place = expected.data() + rule.taken(p, bytes);
        if (!rule.reduces || p == 0) std::copy_n(sent, bytes, place);
        for (u64 at = 0; rule.reduces && p > 0 && at < bytes; at += 4)
          *reinterpret_cast<float*>(place + at) += *reinterpret_cast<const float*>(sent + at);
      }
      wrong += !std::equal(expected.begin(), expected.end(), found);
    }
  for (int r = 0; r < WL_WORLD; ++r)
    if (!lane_alive(base[r])) return 2;
  std::printf("%d wrong\n", wrong);
  return wrong != 0;
}

int main(int, char** argv) {
  const Rule* rule = std::find_if(std::begin(RULES), std::end(RULES), [&](const Rule& r) { return argv[2] == std::string(r.name); });
  const int rounds = std::atoi(argv[3]);
  const u64 bytes = std::strtoull(argv[4], nullptr, 0), limit_ns = std::strtoull(argv[6], nullptr, 0) * 1'000'000;
  const u32 epoch = u32(std::strtoul(argv[5], nullptr, 0));
  return argv[1] == std::string("ll128") ? race<Ll128>(*rule, rounds, bytes, epoch, limit_ns)
                                         : race<Ll>(*rule, rounds, bytes, epoch, limit_ns);
}
