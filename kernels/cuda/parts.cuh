// Every rank sends each peer a part of its input, and takes a part from each: all-gather, broadcast,
// all-to-all, gather and scatter put what they take side by side; reduce-scatter and reduce add it up.
//
// A thread has BATCH items of every part in a pass, one where BATCH is zero and the launch has a thread
// for every item. It sends its items of all parts, and then takes the peers' same items. Over LL each
// item has a slot of its own; over LL128 passes take two places of the block's in turn (ll128.cuh).
//
// In place: a thread reads its items of every part before it writes the same items of any, and no others.
//
// Tokens: in the first pass a block exchanges a slot with every peer, whatever they have for each other,
// and in every pass of a ring who is sent data sends back a slot, by which the sender knows that what
// it sent before has been read.
#pragma once
#include "exchange.cuh"
#include "part_items.cuh"
#include "parts_arguments.cuh"

namespace worldline {

// SAME: every peer gets the same part. REDUCES: what is taken is added up, as NUMBERS.
template <class PROTOCOL, int RANK, int WORLD, int UNIT, bool SAME, bool REDUCES, class NUMBERS, int BATCH>
WL_DEVICE void exchange_parts(const Parts& a) {
  constexpr int N = BATCH > 0 ? BATCH : 1, SOURCES = SAME ? 1 : WORLD;
  constexpr bool LOOPS = BATCH > 0, RING = LOOPS && PROTOCOL::RING;
  constexpr u32 TOKEN = PROTOCOL::WORDS == 2 ? 1 : LINE_LANES;  // threads that share a slot
  constexpr u32 TOGETHER = PROTOCOL::WORDS == 2 ? 1 : WARP;     // threads that wait together
  using Data = Words<PROTOCOL::WORDS>;
  Exchange<PROTOCOL, RANK, WORLD, NUMBERS, Parts> exchange(a);
  const PartItems<PROTOCOL, UNIT> items{exchange.thread};
  const u32 thread = exchange.thread, threads = exchange.threads;
  const u64 step = u64(threads) * N, unit = items.start(thread);
  exchange.wait(a.items, step, unit, a.source, a.target);

  u64 pass = 0;
  Data mine[SOURCES][N];  // what goes to each rank, the own part included
  const auto item = [&](int i) WL_INLINE { return pass * step + u64(i) * threads + thread; };
  const auto start = [&](int i) WL_INLINE { return LOOPS ? items.start(item(i)) : unit; };
  const auto source = [&](int peer) WL_INLINE { return static_cast<const char*>(a.source) + a.send_at[peer]; };
  const auto target = [&](int peer) WL_INLINE { return static_cast<char*>(a.target) + a.take_at[peer]; };
  const auto load = [&]() WL_INLINE {
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
      for (int at = 0; at < SOURCES; ++at) {
        const int peer = SAME ? RANK : at;
        mine[at][i] = items.load(source(peer), start(i), a.send[peer]);
      }
  };
  const auto gives = [&](int peer, int i) WL_INLINE { return item(i) < a.send_items[peer]; };
  const auto takes = [&](int peer, int i) WL_INLINE { return item(i) < a.take_items[peer]; };
  const auto token = [&](bool other, int i) WL_INLINE {
    return i == 0 && thread % TOGETHER < TOKEN && ((RING && other) || (pass == 0 && thread_index() < TOKEN));
  };
  const auto sends = [&](int peer, int i) WL_INLINE { return gives(peer, i) || token(takes(peer, i), i); };
  const auto awaits = [&](int peer, int i) WL_INLINE { return takes(peer, i) || token(gives(peer, i), i); };
  const auto slot = [&](int i) WL_INLINE -> u64 {
    if (!LOOPS) return 0;
    return RING ? ((pass & 1) * N + i) * u64(threads) : pass * step + u64(i) * threads;
  };
  const auto spoilt = [&]() WL_INLINE {
    Data data;
#pragma unroll
    for (int i = 0; i < PROTOCOL::WORDS; ++i) data.w[i] = u32(a.spoilt >> 32 * (i % 2));
    return data;
  };
  const auto mine_of = [&](int peer, int i) WL_INLINE { return mine[SAME ? 0 : peer][i]; };

  exchange.begin([&]() WL_INLINE { load(); return Data{}; });
  for (;;) {
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
      for (int ahead = 1; ahead < WORLD; ++ahead) {
        const int peer = (RANK + ahead) % WORLD;
        exchange.send_if(sends(peer, i), peer, 0, slot(i), mine_of(peer, i));
      }
    if (pass == 0) exchange.sent();
    if constexpr (!REDUCES) {
#pragma unroll
      for (int i = 0; i < N; ++i)
        if (takes(RANK, i) && source(RANK) != target(RANK))
          items.store(target(RANK), start(i), a.take[RANK], exchange.alive ? mine_of(RANK, i) : spoilt());
    }
    // Looks at all items take as long together as one does.
    typename PROTOCOL::Look seen[N][WORLD];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const auto wanted = [&](int peer) WL_INLINE { return awaits(peer, i); };
      if constexpr (PROTOCOL::AT_ONCE)
        exchange.receive(seen[i], 0, slot(i), wanted);
      else
        exchange.look(seen[i], 0, slot(i), wanted);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if constexpr (!PROTOCOL::AT_ONCE) {
#pragma unroll
        for (int peer = 0; peer < WORLD; ++peer)
          if (peer != RANK) exchange.receive_from(peer, seen[i][peer], 0, slot(i), awaits(peer, i));
      }
      const auto taken = [&](int peer) WL_INLINE { return exchange.protocol.data(seen[i][peer]); };
      if constexpr (REDUCES) {
        const Data sum = in_rank_order<RANK, WORLD, NUMBERS>(mine_of(RANK, i), a.scale, taken);
        if (takes(RANK, i))
          items.store(target(RANK), start(i), a.take[RANK], exchange.alive ? sum : spoilt_words<NUMBERS, PROTOCOL::WORDS>());
      } else {
#pragma unroll
        for (int peer = 0; peer < WORLD; ++peer)
          if (peer != RANK && takes(peer, i))
            items.store(target(peer), start(i), a.take[peer], exchange.alive ? taken(peer) : spoilt());
      }
    }
    if (!LOOPS) break;
    ++pass;
    if (pass * step + thread / TOGETHER * TOGETHER >= a.items) break;
    exchange.protocol.begin_pass(u32(pass));
    load();
  }
  exchange.leave();
}

}  // namespace worldline
