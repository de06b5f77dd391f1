// LL128 all-reduce in CUDA, one-shot and two-shot, of lines of 120 bytes; the same bits as over LL.
//
// A thread's item is its part of a line: 16 bytes, of the last of eight threads 8. Warps go through
// the kernel as one, for they wait as one; `active` says whether a thread's line holds any data.
//
// Two forms of each kernel, as of LL's: with LOOPS a thread takes one item after another.
#pragma once
#include "exchange.cuh"
#include "line_items.cuh"

namespace worldline {

template <int RANK, int WORLD, int DTYPE, bool WIDE, bool LOOPS>
WL_DEVICE void all_reduce_ll128_one_shot(const AllReduce& a) {
  using Data = Words<Ll128::WORDS>;
  Exchange<Ll128, RANK, WORLD, DTYPE> exchange(a);
  const u32 thread = exchange.thread;
  const u64 parts = a.items * LINE_LANES;
  const LineItems<DTYPE, WIDE> source(a.source, a.count, thread), target(a.target, a.count, thread);
  exchange.wait(parts, source.ready(), target.ready());
  const Data mine = exchange.begin([&] { return thread < parts ? source.load(0) : Data{}; });
  auto input = [&](u64 item, bool active) { return item == 0 ? mine : active ? source.load(item) : Data{}; };

  each_of_warp<LOOPS>(thread, exchange.threads, parts, [&](u64 item, bool active) {
    exchange.send_to_all(0, item, input(item, active), active);
  });
  exchange.sent();
  each_of_warp<LOOPS>(thread, exchange.threads, parts, [&](u64 item, bool active) {
    const Data sum = exchange.reduce(0, item, input(item, active), active);
    if (active) target.store(item, exchange.alive ? sum : nan_words<DTYPE, Ll128::WORDS>());
  });
  exchange.leave();
}

// Rank r owns lines [r * share, (r + 1) * share). A block whose first line a share does not hold
// exchanges that line all the same, as a token.
template <int RANK, int WORLD, int DTYPE, bool WIDE, bool LOOPS>
WL_DEVICE void all_reduce_ll128_two_shot(const AllReduce& a) {
  using Data = Words<Ll128::WORDS>;
  Exchange<Ll128, RANK, WORLD, DTYPE> exchange(a);
  const u32 thread = exchange.thread;
  const u64 parts = a.items * LINE_LANES, share = a.share * LINE_LANES;
  const LineItems<DTYPE, WIDE> source(a.source, a.count, thread), target(a.target, a.count, thread);
  auto holds = [&](int owner, u64 item) {
    return thread + item < share && owner * share + thread + item < parts;
  };
  auto exchanged = [&](int owner, u64 item) {
    return holds(owner, item) || (thread_index() < LINE_LANES && item == 0);
  };
  auto load = [&](int owner, u64 item) {
    return holds(owner, item) ? source.load(owner * share + item) : Data{};
  };
  auto store = [&](int owner, u64 item, Data w) {
    if (holds(owner, item))
      target.store(owner * share + item, exchange.alive ? w : nan_words<DTYPE, Ll128::WORDS>());
  };
  exchange.wait(parts, share, source.ready(), target.ready());
  exchange.begin([] { return Data{}; });

  each_of_warp<LOOPS>(thread, exchange.threads, share, [&](u64 item, bool) {
#pragma unroll
    for (int step = 1; step < WORLD; ++step) {
      const int owner = (RANK + step) % WORLD;
      exchange.send(owner, 0, item, load(owner, item), exchanged(owner, item));
    }
  });
  exchange.sent();
  each_of_warp<LOOPS>(thread, exchange.threads, share, [&](u64 item, bool) {
    const bool active = exchanged(RANK, item);
    const Data sum = exchange.reduce(0, item, load(RANK, item), active);
    exchange.send_to_all(1, item, sum, active);
    store(RANK, item, sum);
  });
  each_of_warp<LOOPS>(thread, exchange.threads, share, [&](u64 item, bool) {
    Part seen[WORLD];
    exchange.look(seen, 1, item, [&](int owner) WL_INLINE { return exchanged(owner, item); });
#pragma unroll
    for (int owner = 0; owner < WORLD; ++owner) {
      if (owner == RANK) continue;
      exchange.receive_from(owner, seen[owner], 1, item, exchanged(owner, item));
      store(owner, item, exchange.protocol.data(seen[owner]));
    }
  });
  exchange.leave();
}

}  // namespace worldline
