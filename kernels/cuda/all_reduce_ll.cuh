// LL all-reduce in CUDA, one-shot and two-shot: twins of all_reduce_ll.py, same slots, same bits.
//
// Two forms of each kernel. With LOOPS a thread takes one item after another. Without, the launch has a
// thread for every item: its input is read once, before the epoch is known, and stays in registers.
#pragma once
#include "exchange.cuh"

namespace worldline {

template <int RANK, int WORLD, class NUMBERS, bool WIDE, bool LOOPS>
WL_DEVICE void all_reduce_ll_one_shot(const AllReduce& a) {
  constexpr int WORDS = Ll::WORDS;
  using Data = Words<WORDS>;
  Exchange<Ll, RANK, WORLD, NUMBERS> exchange(a);
  const u32 thread = exchange.thread;
  const u64 items = a.items, count = a.count - u64(thread) * PER_ITEM<NUMBERS, WORDS>;
  const char* source = static_cast<const char*>(a.source) + u64(thread) * (4 * WORDS);
  char* target = static_cast<char*>(a.target) + u64(thread) * (4 * WORDS);
  exchange.wait(items, count, source, target);
  auto load = [&](u64 item) { return load_item<NUMBERS, WIDE, WORDS>(source, item, count); };
  const Data mine = exchange.begin([&] { return thread < items ? load(0) : Data{}; });
  auto input = [&](u64 item) { return item == 0 ? mine : load(item); };

  each<LOOPS>(thread, exchange.threads, items, [&](u64 item) {
    exchange.send_to_all(0, item, input(item));
  });
  exchange.sent();
  each<LOOPS>(thread, exchange.threads, items, [&](u64 item) {
    const Data sum = exchange.reduce(0, item, input(item));
    store_item<NUMBERS, WIDE>(target, item, count, exchange.alive ? sum : spoilt_words<NUMBERS, WORDS>());
  });
  exchange.leave();
}

// Rank r owns items [r * share, (r + 1) * share). A block whose first item a share does not hold
// exchanges that slot all the same, as a token.
template <int RANK, int WORLD, class NUMBERS, bool WIDE, bool LOOPS>
WL_DEVICE void all_reduce_ll_two_shot(const AllReduce& a) {
  constexpr int WORDS = Ll::WORDS;
  using Data = Words<WORDS>;
  Exchange<Ll, RANK, WORLD, NUMBERS> exchange(a);
  const u32 thread = exchange.thread;
  const u64 items = a.items, share = a.share;
  auto place = [&](int owner, u64 item) { return owner * share + thread + item; };
  auto holds = [&](int owner, u64 item) { return place(owner, item) < items && thread + item < share; };
  auto exchanged = [&](int owner, u64 item) {
    return holds(owner, item) || (thread_index() == 0 && item == 0);
  };
  auto load = [&](int owner, u64 item) {
    return holds(owner, item) ? load_item<NUMBERS, WIDE, WORDS>(a.source, place(owner, item), a.count) : Data{};
  };
  auto store = [&](int owner, u64 item, Data w) {
    if (holds(owner, item))
      store_item<NUMBERS, WIDE>(a.target, place(owner, item), a.count, exchange.alive ? w : spoilt_words<NUMBERS, WORDS>());
  };
  exchange.wait(items, share, a.source, a.target, a.count);
  exchange.begin([] { return Data{}; });

  each<LOOPS>(thread, exchange.threads, share, [&](u64 item) {
#pragma unroll
    for (int step = 1; step < WORLD; ++step) {
      const int owner = (RANK + step) % WORLD;
      if (exchanged(owner, item)) exchange.send(owner, 0, item, load(owner, item));
    }
  });
  exchange.sent();
  each<LOOPS>(thread, exchange.threads, share, [&](u64 item) {
    if (!exchanged(RANK, item)) return;
    const Data sum = exchange.reduce(0, item, load(RANK, item));
    exchange.send_to_all(1, item, sum);
    store(RANK, item, sum);
  });
  each<LOOPS>(thread, exchange.threads, share, [&](u64 item) {
    Pair seen[WORLD];
    exchange.receive(seen, 1, item, [&](int owner) WL_INLINE { return exchanged(owner, item); });
#pragma unroll
    for (int owner = 0; owner < WORLD; ++owner)
      if (owner != RANK) store(owner, item, exchange.protocol.data(seen[owner]));
  });
  exchange.leave();
}

}  // namespace worldline
