// Litmus: are wide stores over this link ever seen in pieces? Half of the blocks store lines of 128
// bytes to a peer, as fast as they can, each line full of one number; the others look at what a peer
// stores here. A store that is seen in part shows two numbers in one look.
//
// A line is stored, and looked at, by one instruction of LINE_LANES threads, 16 bytes each.
#pragma once
#include "layout.cuh"
#include "ops.cuh"

namespace worldline {

constexpr int PIECES = 8 / LINE_LANES;
constexpr u64 ONES = 0x3f8000003f800000u;  // two floats

struct Litmus {
  u64 own, peer;  // the lines, here and at the peer
  u64 counts;     // u64 [thread][TALLIES], of the threads that look
  u64 limit_ns;
};

// What a thread that looks has counted. A line or reduction in pieces counts once, by its first lane.
enum Tally { LOOKS, CHANGES, TORN_8, TORN_16, TORN_128, TALLIES };

WL_DEVICE char* piece(u64 lines, u32 thread, int i) {
  return reinterpret_cast<char*>(lines + u64(thread / LINE_LANES) * LINE + (thread % LINE_LANES + i) * 16);
}

// REDUCED: the peer's line grows by one in each of 32 floats, in place of being stored anew.
template <bool REDUCED>
WL_DEVICE void litmus_store(const Litmus& a, u32 thread, u64 end) {
  for (u32 number = 1;; ++number) {
    if (number % 64 == 0 && warp_first(clock_ns()) >= end) return;
    const u64 both = u64(number) << 32 | number;
#pragma unroll
    for (int i = 0; i < PIECES; ++i) {
      if constexpr (REDUCED)
        add_pair(piece(a.peer, thread, i), Pair{ONES, ONES});
      else
        store_pair(piece(a.peer, thread, i), Pair{both, both});
    }
  }
}

WL_DEVICE void litmus_look(const Litmus& a, u32 thread, u64 end) {
  u64 tally[TALLIES] = {}, last = 0;
  for (u32 look = 1;; ++look) {
    if (look % 64 == 0 && warp_first(clock_ns()) >= end) break;
    Pair v[PIECES];
#pragma unroll
    for (int i = 0; i < PIECES; ++i) v[i] = load_pair(piece(a.own, thread, i));
    const u64 first = line_first(v[0].first);
    bool whole = true;
#pragma unroll
    for (int i = 0; i < PIECES; ++i) {
      tally[TORN_8] += u32(v[i].first) != u32(v[i].first >> 32) || u32(v[i].second) != u32(v[i].second >> 32);
      tally[TORN_16] += v[i].first != v[i].second;
      whole = whole && v[i].first == first && v[i].second == first;
    }
    whole = line_all(whole);
    if (thread % LINE_LANES == 0) {
      ++tally[LOOKS];
      tally[CHANGES] += first != last;
      tally[TORN_128] += !whole;
    }
    last = first;
  }
  for (int i = 0; i < TALLIES; ++i) store_u64(reinterpret_cast<u64*>(a.counts) + thread * TALLIES + i, tally[i]);
}

template <bool REDUCED>
WL_DEVICE void litmus(const Litmus& a) {
  const u32 thread = block_index() / 2 * block_threads() + thread_index();
  // A warp leaves as one: a line whose last store only some lanes made would be in pieces for good.
  const u64 end = warp_first(clock_ns()) + a.limit_ns;
  if (block_index() % 2 == 0)
    litmus_store<REDUCED>(a, thread, end);
  else
    litmus_look(a, thread, end);
}

}  // namespace worldline
