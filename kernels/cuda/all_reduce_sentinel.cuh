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

// Items that a thread waits for at once, of the N of a pass.
template <bool WIDE, int BATCH>
constexpr int AT_ONCE = KEEPS<WIDE, BATCH> && BATCH > 0 ? BATCH : 1;

// Whether the block that starts at item `first` has none.
template <int BATCH>
WL_DEVICE bool idle(u64 first, u64 items) {
  return BATCH > 0 && first >= items;
}

template <int RANK, int WORLD, class NUMBERS, bool WIDE, int BATCH>
WL_DEVICE void all_reduce_sentinel_one_shot(const AllReduce& a) {
  constexpr int WORDS = Sentinel::WORDS, N = BATCH > 0 ? BATCH : 1, M = AT_ONCE<WIDE, BATCH>;
  using Data = Words<WORDS>;
  Channel<RANK, WORLD, NUMBERS, (BATCH > 0)> channel(a);
  const u32 workers = channel.workers;
  const u64 base = u64(block_index()) * workers * N, step = u64(grid_blocks()) * workers * N;
  const u64 first = base + channel.thread, left = first < a.items ? a.items - first : 0;
  const u64 count = a.count - first * PER_ITEM<NUMBERS, WORDS>;
  const char* source = static_cast<const char*>(a.source) + first * (4 * WORDS);
  char* target = static_cast<char*>(a.target) + first * (4 * WORDS);
  channel.wait(left, count, source, target, base, step);
  if (idle<BATCH>(base, a.items)) return;
  if (channel.helps()) return channel.help(base, step, a.items);

  u64 done = 0;  // items of the block before this pass
  auto item = [&](int i) WL_INLINE { return done + u64(i) * workers; };
  auto input = [&](int i) WL_INLINE {
    return item(i) < left ? load_item<NUMBERS, WIDE, WORDS>(source, item(i), count) : Data{};
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
#pragma unroll(KEPT ? N : 1)
    for (int at = 0; at < N; at += M) {
      const auto wanted = [&](int i, int) WL_INLINE { return item(i) < left; };
      channel.template receive<M>(0, at, wanted, [&](const Pair(&seen)[M * WORLD]) WL_INLINE {
#pragma unroll
        for (int i = 0; i < M; ++i) {
          if (item(at + i) >= left) continue;
          const Data sum = in_rank_order<RANK, WORLD, NUMBERS>(
              own(at + i), a.scale, [&](int peer) WL_INLINE { return channel.pass.data(seen[i * WORLD + peer]); });
          store_item<NUMBERS, WIDE>(target, item(at + i), count, channel.alive ? sum : spoilt_words<NUMBERS, WORDS>());
        }
      });
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
template <int RANK, int WORLD, class NUMBERS, bool WIDE, int BATCH>
WL_DEVICE void all_reduce_sentinel_two_shot(const AllReduce& a) {
  constexpr int WORDS = Sentinel::WORDS, N = BATCH > 0 ? BATCH : 1, M = AT_ONCE<WIDE, BATCH>;
  using Data = Words<WORDS>;
  Channel<RANK, WORLD, NUMBERS, (BATCH > 0)> channel(a);
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
    return holds(owner, i) ? load_item<NUMBERS, WIDE, WORDS>(a.source, place(owner, i), a.count) : Data{};
  };
  auto store = [&](int owner, int i, Data w) WL_INLINE {
    store_item<NUMBERS, WIDE>(a.target, place(owner, i), a.count, channel.alive ? w : spoilt_words<NUMBERS, WORDS>());
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
#pragma unroll(KEPT ? N : 1)
    for (int from = 0; from < N; from += M) {
      const auto wanted = [&](int i, int) WL_INLINE { return holds(RANK, i); };
      channel.template receive<M>(0, from, wanted, [&](const Pair(&seen)[M * WORLD]) WL_INLINE {
#pragma unroll
        for (int i = 0; i < M; ++i) {
          if (!holds(RANK, from + i)) continue;
          const Data sum = in_rank_order<RANK, WORLD, NUMBERS>(
              KEPT ? mine[i] : load(RANK, from + i), a.scale,
              [&](int peer) WL_INLINE { return channel.pass.data(seen[i * WORLD + peer]); });
          channel.send_to_all(1, (from + i) * workers, sum);
          store(RANK, from + i, sum);
        }
      });
    }
#pragma unroll(KEPT ? N : 1)
    for (int from = 0; from < N; from += M) {
      const auto wanted = [&](int i, int owner) WL_INLINE { return holds(owner, i); };
      channel.template receive<M>(1, from, wanted, [&](const Pair(&seen)[M * WORLD]) WL_INLINE {
#pragma unroll
        for (int i = 0; i < M; ++i)
#pragma unroll
          for (int owner = 0; owner < WORLD; ++owner)
            if (owner != RANK && holds(owner, from + i))
              store(owner, from + i, channel.pass.data(seen[i * WORLD + owner]));
      });
    }
    at += step;
    if (BATCH == 0 || at - channel.thread >= share) break;
    channel.next(load_own);
    send();
    channel.keep();
  }
  channel.leave();
}

}  // namespace worldline
