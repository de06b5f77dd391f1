// LL128-atomic all-reduce in CUDA, a two-shot whose owners' sums peers add to: bits of no fixed order.
//
// Shares, lines and tokens are the LL128 two-shot's.
#pragma once
#include "exchange.cuh"
#include "line_shares.cuh"
#include "ll128_atomic.cuh"

namespace worldline {

template <int RANK, int WORLD, class NUMBERS, bool WIDE, bool LOOPS>
WL_DEVICE void all_reduce_ll128_atomic(const AllReduce& a) {
  using Data = Words<Ll128::WORDS>;
  Exchange<Ll128, RANK, WORLD, NUMBERS> exchange(a);
  const LineShares<NUMBERS, WIDE> shares(a, exchange.thread);
  Sums<RANK, WORLD, NUMBERS> sums(a.sum_stage);
  u32* const word = block_word(exchange.own, TURNS, block_index());
  const u64 at = a.sums + u64(exchange.thread) * Ll128::BYTES;  // the thread's first part, from an arena's start
  auto place = [&](int arena, u64 item) { return a.lane.base[arena] + at + item * Ll128::BYTES; };
  exchange.wait(shares.ready(), u64(word), at, a.sum_stage);
  u32 last = 0;
  exchange.begin([&] {
    last = load_u32(word);
    return Data{};
  });
  sums.begin(last);

  shares.template each<LOOPS>(exchange.threads, [&](u64 item) {
#pragma unroll
    for (int step = 1; step < WORLD; ++step) {
      const int owner = (RANK + step) % WORLD;
      if (exchange.alive) sums.add_to(place(owner, item), shares.load(owner, item), shares.exchanged(owner, item));
    }
  });
  exchange.sent();
  advance_words(exchange.own, TURNS, sums.turn);
  fence_system();
  shares.template each<LOOPS>(exchange.threads, [&](u64 item) {
    const bool active = shares.exchanged(RANK, item);
    Data sum = shares.load(RANK, item);
    if constexpr (WORLD == 1) {
      sum = pack<WORLD>(unpack<NUMBERS>(sum));
    } else if (exchange.alive) {
      const u32 index = u32(exchange.thread + item);
      exchange.alive = sums.collect(place(RANK, item), sum, a.lane, exchange.protocol.epoch, index, active);
    }
    exchange.send_to_all(1, item, sum, active);
    if (WORLD > 1 && exchange.alive) sums.empty(place(RANK, item), active);
    shares.store(RANK, item, sum, exchange.alive);
  });
  receive_results<RANK, WORLD, LOOPS>(exchange, shares);
  exchange.leave();
}

}  // namespace worldline
