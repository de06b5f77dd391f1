// The CUDA all-reduce on host threads: ranks x blocks x threads of one process, bits checked.
//
// Usage: race PROTOCOL DTYPE ROUNDS COUNT SHOTS EPOCH DEADLINE_MS. Exits 0 when every sum is right, 1
// when one is wrong, 2 when a lane died. Build with -DWL_WORLD=..., -fsanitize=thread.
#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <random>
#include <utility>
#include <vector>

#include "over.h"

using namespace worldline;

constexpr int BLOCKS = 2, WORKERS = 4, BATCH = 2;
constexpr u64 SLOTS = 1 << 14, HALF = 2 * SLOTS, SENTINEL = LL + 2 * HALF, STAGE = BLOCKS * CHANNEL_BYTES<WL_WORLD>;
constexpr u64 SUMS = SENTINEL + 3 * STAGE, SUM_STAGE = SLOTS / 2, ARENA_BYTES = SUMS + 3 * SUM_STAGE;

// ROOM: of one source, in a buffer or a channel.
struct RaceLl : OverLl {
  static constexpr u64 REGION = LL, BUFFER = HALF, ROOM = SLOTS / WL_WORLD;
};
struct RaceLl128 : OverLl128 {
  static constexpr u64 REGION = LL + SLOTS, BUFFER = HALF, ROOM = (HALF - SLOTS) / WL_WORLD;
};
struct RaceLl128Atomic : OverLl128Atomic {
  static constexpr u64 REGION = LL + SLOTS, BUFFER = HALF, ROOM = (HALF - SLOTS) / WL_WORLD;
};
struct RaceSentinel : OverSentinel<BATCH> {
  static constexpr u64 REGION = SENTINEL, BUFFER = STAGE, ROOM = CHANNEL_BYTES<WL_WORLD> / std::max(1, WL_WORLD - 1);
};

// Numbers as tensors hold them.
template <int DTYPE>
struct As {
  using Element = u16;
  static u16 of(float x) { return DTYPE == FLOAT16 ? float_to_half(x) : float_to_bfloat(x); }
  static float number(u16 x) { return DTYPE == FLOAT16 ? half_to_float(x) : bits_to_float(u32(x) << 16); }
};
template <>
struct As<FLOAT32> {
  using Element = u32;
  static u32 of(float x) { return float_to_bits(x); }
  static float number(u32 x) { return bits_to_float(x); }
};

template <class PROTOCOL, int DTYPE, int RANK>
void launch(const AllReduce& a, int shots) {
  if ((shots == 1 ? a.items : a.share) > u64(BLOCKS * WORKERS))
    PROTOCOL::template run<RANK, WL_WORLD, true, true, Numbers<DTYPE, SUM>>(a, shots);
  else
    PROTOCOL::template run<RANK, WL_WORLD, true, false, Numbers<DTYPE, SUM>>(a, shots);
}

template <class PROTOCOL, int DTYPE, int... RANKS>
void launch_as(int rank, const AllReduce& a, int shots, std::integer_sequence<int, RANKS...>) {
  ((rank == RANKS ? launch<PROTOCOL, DTYPE, RANKS>(a, shots) : void()), ...);
}

template <class PROTOCOL, int DTYPE>
int race(char** argv) {
  using Element = typename As<DTYPE>::Element;
  constexpr int THREADS = WORKERS + PROTOCOL::HELPERS, PER_WORD = PER_ITEM<Numbers<DTYPE, SUM>, 1>, PER = PROTOCOL::FLOATS * PER_WORD;
  const int rounds = std::atoi(argv[3]), count = std::atoi(argv[4]), shots = std::atoi(argv[5]);
  const u32 epoch = u32(std::strtoul(argv[6], nullptr, 0));
  const u64 limit_ns = std::strtoull(argv[7], nullptr, 0) * 1'000'000;
  std::vector<std::vector<u64>> arenas(WL_WORLD, std::vector<u64>(ARENA_BYTES / 8 + 16));
  std::vector<std::vector<Element>> in(WL_WORLD), out(WL_WORLD);
  std::vector<u64> base(WL_WORLD), notice(WL_WORLD);
  for (int r = 0; r < WL_WORLD; ++r) {
    base[r] = (u64(arenas[r].data()) + 127) / 128 * 128;
    for (u32 b = 0; b < u32(MAX_BLOCKS); ++b) {
      *block_word(base[r], EPOCHS, b) = epoch;
      *block_word(base[r], STAGES, b) = epoch << 2;
      *block_word(base[r], TURNS, b) = epoch << 2;
    }
    for (u64 at = TOKENS; at < LL; at += 4) *reinterpret_cast<u32*>(base[r] + at) = epoch << 2;
    for (u64 at = SENTINEL; at < SUMS; at += 8) *reinterpret_cast<u64*>(base[r] + at) = ~u64(0);
    in[r].resize(size_t(rounds) * count);
    out[r].resize(size_t(rounds) * count);
    std::mt19937 random(r);
    // Sums of these are exact, in any order.
    for (Element& x : in[r]) x = As<DTYPE>::of(float(int(random() % 255) - 127) / 64);
    // Now and then some that look like an empty slot.
    constexpr size_t RUN = 2 * PER_WORD;
    for (size_t i = 0; i + RUN <= in[r].size(); i += RUN)
      if (random() % 64 == 0) std::fill_n(&in[r][i], RUN, Element(~0u));
  }
  auto rank = [&](int r) {
    std::barrier<> kernel_end(BLOCKS * THREADS);
    // A block's own barrier and two one-way ones.
    std::vector<std::unique_ptr<std::barrier<>>> meets;
    for (int b = 0; b < 3 * BLOCKS; ++b) meets.push_back(std::make_unique<std::barrier<>>(THREADS));
    std::vector<std::thread> threads;
    for (int t = 0; t < BLOCKS * THREADS; ++t)
      threads.emplace_back([&, t] {
        place = {u32(t % THREADS), THREADS, u32(t / THREADS), BLOCKS,
                 [](void* own, int number, bool waits) {
                   std::barrier<>& barrier = *static_cast<std::unique_ptr<std::barrier<>>*>(own)[number];
                   waits ? barrier.arrive_and_wait() : void(barrier.arrive());
                 },
                 &meets[3 * (t / THREADS)]};
        for (int round = 0; round < rounds; ++round) {
          AllReduce a{};
          for (int p = 0; p < WL_WORLD; ++p) a.lane.base[p] = base[p];
          a.lane.limit_ns = limit_ns;
          a.lane.notice = u64(&notice[r]);
          a.lane.rank = r;
          a.lane.world = WL_WORLD;
          a.source = in[r].data() + size_t(round) * count;
          a.target = out[r].data() + size_t(round) * count;
          a.count = count;
          a.items = (count + PER - 1) / PER;
          a.share = (a.items + WL_WORLD - 1) / WL_WORLD;
          a.region = PROTOCOL::REGION;
          a.buffer = PROTOCOL::BUFFER;
          a.sums = SUMS;
          a.sum_stage = SUM_STAGE;
          a.stride = PROTOCOL::ROOM / PROTOCOL::SLOT_BYTES / shots * (PROTOCOL::SLOT_BYTES / SLOT);
          // No more blocks than there are items for, as launches have: each must exchange a slot with
          // every peer, or what it clears before the wrap could wipe out what a peer sends next.
          const u64 items = shots == 1 ? a.items : a.share;
          place.blocks = u32(std::min(u64(BLOCKS), (items + WORKERS - 1) / WORKERS));
          if (place.block < place.blocks)
            launch_as<PROTOCOL, DTYPE>(r, a, shots, std::make_integer_sequence<int, WL_WORLD>());
          kernel_end.arrive_and_wait();
        }
      });
    for (std::thread& t : threads) t.join();
  };
  std::vector<std::thread> ranks;
  for (int r = 0; r < WL_WORLD; ++r) ranks.emplace_back(rank, r);
  for (std::thread& r : ranks) r.join();
  int wrong = 0;
  for (size_t i = 0; i < in[0].size(); ++i) {
    float sum = As<DTYPE>::number(in[0][i]);
    for (int r = 1; r < WL_WORLD; ++r) sum = add(sum, As<DTYPE>::number(in[r][i]));
    for (int r = 0; r < WL_WORLD; ++r) wrong += out[r][i] != As<DTYPE>::of(sum);
  }
  for (int r = 0; r < WL_WORLD; ++r)
    if (!lane_alive(base[r])) return 2;
  std::printf("%d wrong\n", wrong);
  return wrong != 0;
}

int main(int, char** argv) {
  const std::string protocol = argv[1], dtype = argv[2];
  if (protocol == "ll128_atomic") {
    // The only one that takes a word's halves apart.
    if (dtype == "float16") return race<RaceLl128Atomic, FLOAT16>(argv);
    if (dtype == "bfloat16") return race<RaceLl128Atomic, BFLOAT16>(argv);
    return race<RaceLl128Atomic, FLOAT32>(argv);
  }
  if (protocol == "ll128") return race<RaceLl128, FLOAT32>(argv);
  return protocol == "ll" ? race<RaceLl, FLOAT32>(argv) : race<RaceSentinel, FLOAT32>(argv);
}
