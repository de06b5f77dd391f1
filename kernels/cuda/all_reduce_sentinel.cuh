// Sentinel all-reduce in CUDA, one-shot and two-shot, of any count: twins of all_reduce_sentinel.py,
// same slots, same bits.
//
// Two forms of each kernel. With BATCH zero the launch has a thread for every item, whose input is
// read before the stage is known. Else a thread takes BATCH items in a pass, and passes follow each
// other: sends of all its items first, so that the link is full while it waits. It keeps them in
// registers where one access reads an item, and reads them again where it takes many.
#pragma once
#include "channel.cuh"

namespace worldline {

template <bool WIDE, int BATCH>
constexpr bool KEEPS = WIDE || BATCH == 0;

// Whether the block that starts at item `first` has none.
template <int BATCH>
WL_DEVICE bool idle(u64 first, u64 items) {
  return BATCH > 0 && first >= items;
}

template <int RANK, int WORLD, int DTYPE, bool WIDE, int BATCH>
WL_DEVICE void all_reduce_sentinel_one_shot(const AllReduce& a) {
  constexpr int WORDS = Sentinel::WORDS, N = BATCH > 0 ? BATCH : 1;
  using Data = Words<WORDS>;
  Channel<RANK, WORLD, DTYPE, (BATCH > 0)> channel(a);
  const u32 workers = channel.workers;
  const u64 base = u64(block_index()) * workers * N, step = u64(grid_blocks()) * workers * N;
  const u64 first = base + channel.thread, left = first < a.items ? a.items - first : 0;
  const u64 count = a.count - first * PER_ITEM<DTYPE, WORDS>;
  const char* source = static_cast<const char*>(a.source) + first * (4 * WORDS);
  char* target = static_cast<char*>(a.target) + first * (4 * WORDS);
  channel.wait(left, count, source, target, base, step);
  if (idle<BATCH>(base, a.items)) return;
  if (channel.helps()) return channel.help(base, step, a.items);

  u64 done = 0;  // items of the block before this pass
  auto item = [&](int i) WL_INLINE { return done + u64(i) * workers; };
  auto input = [&](int i) WL_INLINE {
    return item(i) < left ? load_item<DTYPE, WIDE, WORDS>(source, item(i), count) : Data{};
  };
  constexpr bool KEPT = KEEPS<WIDE, BATCH>;
  Data mine[N];
  auto own = [&](int i) WL_INLINE { return KEPT ? mine[i] : input(i); };
  auto load = [&]() WL_INLINE {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (KEPT) mine[i] = input(i);
  };
  auto send = [&]() WL_INLINE {
#pragma unroll(KEPT ? N : 1)
    for (int i = 0; i < N; ++i)
      if (item(i) < left) channel.send_to_all(0, i * workers, own(i));
  };
  channel.begin(load);
  send();
  channel.sent();
  for (;;) {
    Pair looks[N][WORLD];
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
      for (int rank = 0; rank < WORLD; ++rank)
        if (KEPT && rank != RANK && item(i) < left) looks[i][rank] = channel.look(rank, 0, i * workers);
#pragma unroll(KEPT ? N : 1)
    for (int i = 0; i < N; ++i) {
      if (item(i) >= left) continue;
      const Data sum = in_rank_order<RANK, WORLD, DTYPE>(
          own(i), [&](int peer) { return KEPT ? looks[i][peer] : channel.look(peer, 0, i * workers); },
          [&](int peer, Pair look) { return channel.receive(peer, 0, i * workers, look); });
      store_item<DTYPE, WIDE>(target, item(i), count, channel.alive ? sum : nan_words<DTYPE, WORDS>());
    }
    done += step;
    if (BATCH == 0 || base + done >= a.items) break;
    channel.next(load);
    send();
    channel.keep();
  }
  channel.leave();
}

// Rank r owns items [r * share, (r + 1) * share).
template <int RANK, int WORLD, int DTYPE, bool WIDE, int BATCH>
WL_DEVICE void all_reduce_sentinel_two_shot(const AllReduce& a) {
  constexpr int WORDS = Sentinel::WORDS, N = BATCH > 0 ? BATCH : 1;
  using Data = Words<WORDS>;
  Channel<RANK, WORLD, DTYPE, (BATCH > 0)> channel(a);
  const u32 workers = channel.workers;
  const u64 base = u64(block_index()) * workers * N, step = u64(grid_blocks()) * workers * N;
  const u64 items = a.items, share = a.share;
  channel.wait(items, share, base, step, a.source, a.target, a.count);
  if (idle<BATCH>(base, share)) return;
  if (channel.helps()) return channel.help(base, step, share);

  u64 at = base + channel.thread;  // in a share, the thread's first item of the pass
  auto place = [&](int owner, int i) WL_INLINE { return owner * share + at + u64(i) * workers; };
  auto holds = [&](int owner, int i) WL_INLINE { return at + u64(i) * workers < share && place(owner, i) < items; };
  auto load = [&](int owner, int i) WL_INLINE {
    return holds(owner, i) ? load_item<DTYPE, WIDE, WORDS>(a.source, place(owner, i), a.count) : Data{};
  };
  auto store = [&](int owner, int i, Data w) WL_INLINE {
    store_item<DTYPE, WIDE>(a.target, place(owner, i), a.count, channel.alive ? w : nan_words<DTYPE, WORDS>());
  };
  constexpr bool KEPT = KEEPS<WIDE, BATCH>;
  Data mine[N];
  auto load_own = [&]() WL_INLINE {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (KEPT) mine[i] = load(RANK, i);
  };
  auto send = [&]() WL_INLINE {
#pragma unroll
    for (int ahead = 1; ahead < WORLD; ++ahead) {
      const int owner = (RANK + ahead) % WORLD;
      Data theirs[N];
#pragma unroll
      for (int i = 0; i < N; ++i)
        if (KEPT) theirs[i] = load(owner, i);
#pragma unroll(KEPT ? N : 1)
      for (int i = 0; i < N; ++i)
        if (holds(owner, i)) channel.send(owner, 0, i * workers, KEPT ? theirs[i] : load(owner, i));
    }
  };
  channel.begin(load_own);
  send();
  channel.sent();
  for (;;) {
    Pair looks[N][WORLD];
    auto look = [&](int shot, int owner, int source, int i) WL_INLINE {
      if (KEPT && holds(owner, i)) looks[i][source] = channel.look(source, shot, i * workers);
    };
    auto seen = [&](int shot, int source, int i) WL_INLINE {
      return KEPT ? looks[i][source] : channel.look(source, shot, i * workers);
    };
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
      for (int rank = 0; rank < WORLD; ++rank)
        if (rank != RANK) look(0, RANK, rank, i);
#pragma unroll(KEPT ? N : 1)
    for (int i = 0; i < N; ++i) {
      if (!holds(RANK, i)) continue;
      const Data sum = in_rank_order<RANK, WORLD, DTYPE>(
          KEPT ? mine[i] : load(RANK, i), [&](int peer) { return seen(0, peer, i); },
          [&](int peer, Pair first) { return channel.receive(peer, 0, i * workers, first); });
      channel.send_to_all(1, i * workers, sum);
      store(RANK, i, sum);
    }
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
      for (int owner = 0; owner < WORLD; ++owner)
        if (owner != RANK) look(1, owner, owner, i);
#pragma unroll(KEPT ? N : 1)
    for (int i = 0; i < N; ++i)
#pragma unroll
      for (int owner = 0; owner < WORLD; ++owner)
        if (owner != RANK && holds(owner, i))
          store(owner, i, channel.receive(owner, 1, i * workers, seen(1, owner, i)));
    at += step;
    if (BATCH == 0 || at - channel.thread >= share) break;
    channel.next(load_own);
    send();
    channel.keep();
  }
  channel.leave();
}

}  // namespace worldline
