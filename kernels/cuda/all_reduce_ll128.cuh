// LL128 all-reduce in CUDA, one-shot and two-shot, of lines of 120 bytes; the same bits as over LL.
//
// A thread's item is its part of a line: 16 bytes, of the last of eight threads 8. Warps go through
// the kernel as one, for they wait as one; `active` says whether a thread's line holds any data.
//
// Two forms of each kernel, as of LL's: with LOOPS a thread takes one item after another.
#pragma once
#include "exchange.cuh"
#include "line_shares.cuh"

namespace worldline {

template <int RANK, int WORLD, class NUMBERS, bool WIDE, bool LOOPS>
WL_DEVICE void all_reduce_ll128_one_shot(const AllReduce& a) {
  using Data = Words<Ll128::WORDS>;
  Exchange<Ll128, RANK, WORLD, NUMBERS> exchange(a);
  const u32 thread = exchange.thread;
  const u64 parts = a.items * LINE_LANES;
  const LineItems<NUMBERS, WIDE> source(a.source, a.count, thread), target(a.target, a.count, thread);
  exchange.wait(parts, source.ready(), target.ready());
  // Where one access loads it, without a branch: the epoch would be waited for first.
  const Data mine = exchange.begin([&] { return WIDE || thread < parts ? source.load(0) : Data{}; });
  auto input = [&](u64 item, bool active) { return item == 0 ? mine : active ? source.load(item) : Data{}; };

  each_of_warp<LOOPS>(thread, exchange.threads, parts, [&](u64 item, bool active) {
    exchange.send_to_all(0, item, input(item, active), active);
  });
  exchange.sent();
  each_of_warp<LOOPS>(thread, exchange.threads, parts, [&](u64 item, bool active) {
    const Data sum = exchange.reduce(0, item, input(item, active), active);
    if (active) target.store(item, exchange.alive ? sum : spoilt_words<NUMBERS, Ll128::WORDS>());
  });
  exchange.leave();
}

template <int RANK, int WORLD, class NUMBERS, bool WIDE, bool LOOPS>
WL_DEVICE void all_reduce_ll128_two_shot(const AllReduce& a) {
  using Data = Words<Ll128::WORDS>;
  Exchange<Ll128, RANK, WORLD, NUMBERS> exchange(a);
  const LineShares<NUMBERS, WIDE> shares(a, exchange.thread);
  exchange.wait(shares.ready());
  exchange.begin([] { return Data{}; });

  shares.template each<LOOPS>(exchange.threads, [&](u64 item) {
#pragma unroll
    for (int step = 1; step < WORLD; ++step) {
      const int owner = (RANK + step) % WORLD;
      exchange.send(owner, 0, item, shares.load(owner, item), shares.exchanged(owner, item));
    }
  });
  exchange.sent();
  shares.template each<LOOPS>(exchange.threads, [&](u64 item) {
    const bool active = shares.exchanged(RANK, item);
    const Data sum = exchange.reduce(0, item, shares.load(RANK, item), active);
    exchange.send_to_all(1, item, sum, active);
    shares.store(RANK, item, sum, exchange.alive);
  });
  receive_results<RANK, WORLD, LOOPS>(exchange, shares);
  exchange.leave();
}

}  // namespace worldline
