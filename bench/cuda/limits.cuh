// What the hardware takes for the steps of a small collective, by one thread: loads, fences, a store
// that a polling peer sees, and the LL all-reduce of eight bytes looped inside a kernel.
#pragma once
#include "ll.cuh"
#include "numerics.cuh"

namespace worldline {

struct Limits {
  Lane lane;
  u64 own, peer;  // memory of this rank's and its peer's, zeroed
  u64 result;     // u64: nanoseconds of all rounds but the first WARM_UP
  u32 rounds;
};

constexpr u32 WARM_UP = 100;

enum Step { EMPTY_KERNEL, LOAD, REMOTE_LOAD, FENCE, PING_PONG, LL_LOOP };

WL_DEVICE u32* word(u64 memory) { return reinterpret_cast<u32*>(memory); }

// Dependent loads: memory holds zeroes, so that the address stays, and nobody knows beforehand.
WL_DEVICE void chase(u64 memory, u32 rounds, u64& started) {
  u64 at = memory;
  for (u32 round = 0; round < rounds; ++round) {
    if (round == WARM_UP) started = clock_ns();
    at += load_u32(word(at));
  }
  if (at != memory) store_u32(word(memory), 0);
}

WL_DEVICE bool await(u64 memory, u32 value, const Lane& lane, int peer) {
  Patience patience;
  for (u32 rounds = 1; load_u32(word(memory)) != value; ++rounds)
    if (rounds % SPINS == 0 && !patience.more(lane, value, peer, 0, 0)) return false;
  return true;
}

WL_DEVICE bool ping_pong(const Limits& a, u64& started) {
  const int peer = 1 - a.lane.rank;
  for (u32 round = 1; round <= a.rounds; ++round) {
    if (round == WARM_UP) started = clock_ns();
    if (a.lane.rank == 0) store_u32(word(a.peer), round);
    if (!await(a.own, round, a.lane, peer)) return false;
    if (a.lane.rank == 1) store_u32(word(a.peer), round);
  }
  return true;
}

WL_DEVICE bool ll_loop(const Limits& a, u64& started) {
  const int rank = a.lane.rank;
  Words<2> data{{u32(rank), 0}};
  for (u32 epoch = 1; epoch <= a.rounds; ++epoch) {
    if (epoch == WARM_UP) started = clock_ns();
    const u64 slot = (epoch & 1) * SLOT;
    ll_send(reinterpret_cast<char*>(a.peer + slot), data, epoch);
    const char* from = reinterpret_cast<char*>(a.own + slot);
    Pair seen[1]{load_pair(from)};
    Ll protocol(SLOT);
    protocol.epoch = epoch;
    const auto always = [](int) { return true; };
    const auto place = [&](int) { return Awaited{1 - rank, 0}; };
    if (!protocol.wait<-1>(seen, always, [&](int) { return from; }, place, a.lane)) return false;
    const Words<2> other = protocol.data(seen[0]);
    using Sum = Numbers<BFLOAT16, SUM>;
    auto total = unpack<Sum>(rank == 0 ? data : other);
    accumulate(total, unpack<Sum>(rank == 0 ? other : data));
    data = pack<2>(total);
  }
  return true;
}

template <int STEP>
WL_DEVICE void limits(const Limits& a) {
  wait_for_predecessor(1);
  launch_successor();
  if constexpr (STEP == EMPTY_KERNEL) return;
  u64 started = 0;
  bool done = true;
  if constexpr (STEP == LOAD) chase(a.own, a.rounds, started);
  if constexpr (STEP == REMOTE_LOAD) chase(a.peer, a.rounds, started);
  if constexpr (STEP == FENCE)
    for (u32 round = 0; round < a.rounds; ++round) {
      if (round == WARM_UP) started = clock_ns();
      store_u32(word(a.own), round);
      fence_system();
    }
  if constexpr (STEP == PING_PONG) done = ping_pong(a, started);
  if constexpr (STEP == LL_LOOP) done = ll_loop(a, started);
  store_u64(reinterpret_cast<u64*>(a.result), done ? clock_ns() - started : 0);
}

}  // namespace worldline
