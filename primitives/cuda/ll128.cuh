// LL128: lines of 120 bytes of data and a flag of 8, no barrier.
//
// Slot: a line of 128 bytes, written and read by one instruction of LINE_LANES neighbours, 16 bytes
// each. The last one's upper half is the flag, the operation's epoch twice; the rest is data, bit for
// bit. Nothing else proves it: a line has to become visible as a whole. No specification promises
// that, so kernels of this protocol are offered only where litmus.cuh has looked for torn lines.
//
//     byte   0              16                   112      120      128
//            | data, thread 0 | ... | data, thread 7 | epoch epoch |
//
// Who writes what, why reuse is safe, and the wrap: as for LL (ll.py), on whose epochs and halves
// lines lie. A half holds LL's slots and then lines, so what clears one clears both.
//
// A launch may go through its lines again and again, in passes whose number the flag's lower half
// counts on: the epoch, plus the pass. Passes take the two places of a block's own lines in turn. In
// pass k a warp overwrites what its peers' same warps read in pass k - 2: it has received from them in
// pass k - 1, which they sent when they had read that. So the grids of all ranks are equal, and who is
// sent data in a pass sends data or a token back in the same pass.
//
// Memory order: none. A line's data is ordered by being in the line.
//
// Threads of a warp wait together: who looks again at its part looks at the flag's once more, too.
#pragma once
#include "epochs.cuh"
#include "numbers.cuh"
#include "poll.cuh"

namespace worldline {

// The line's last thread holds the flag.
WL_DEVICE bool holds_flag(u32 thread) { return thread % LINE_LANES == LINE_LANES - 1; }

WL_DEVICE u64 ll128_flag(u32 epoch, u32 pass = 0) { return u64(epoch) << 32 | u32(epoch + pass); }

WL_DEVICE u64 flag_of(const Part& last) { return last.v[sizeof(Part) / 8 - 1]; }

// Poll N lines until no thread of the warp is `missing` any; false if the wait failed. All threads come
// and look again together at every line that is `active` for them, equal for all of a line: one vote a
// round. No condition is left early: a branch would part the threads of a line. `where` and `shows` are
// for the record.
template <int N, class Active, class Missing, class Slot, class Where, class Shows>
WL_DEVICE bool poll_lines(Part (&seen)[N], Active active, Missing missing, Slot slot, Where where, Shows shows,
                          u32 epoch, const Lane& lane) {
  const auto all_here = [&]() WL_INLINE {
    u32 left = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) left |= missing(i);
    return warp_all(left == 0);
  };
  if (all_here()) return true;
  Patience patience;
#pragma unroll 1
  for (u32 rounds = 1;; ++rounds) {
#pragma unroll
    for (int poll = 0; poll < POLLS; ++poll) {
      pause();
#pragma unroll
      for (int i = 0; i < N; ++i)
        if (active(i)) seen[i] = load_part(slot(i));
      if (all_here()) return true;
    }
#ifndef WL_NO_DEADLINE
    if (rounds % (SPINS / POLLS) != 0) continue;
    Awaited first{};
    u32 shown = 0;
    bool late = false;
#pragma unroll
    for (int i = N - 1; i >= 0; --i)
      if (missing(i)) first = where(i), shown = shows(i), late = true;
    late = late && !patience.more(lane, epoch, first.peer, first.index, shown);
    if (!warp_all(!late)) return false;
#endif
  }
}

// The protocol of one launch, as kernels take it.
struct Ll128 : Halves {
  static constexpr int WORDS = LINE / 4 / LINE_LANES;  // of a thread, the flag's included
  static constexpr u64 BYTES = LINE / LINE_LANES;
  static constexpr bool AT_ONCE = false;  // its threads' registers hold less
  static constexpr bool RING = true;      // flags tell a launch's passes apart
  using Look = Part;
  using Halves::Halves;
  u32 pass = 0;  // of a launch that goes through its slots again and again

  WL_DEVICE static bool agreed(bool x) { return warp_all(x); }
  WL_DEVICE void begin_pass(u32 number) { pass = number; }
  // `active`: whether the thread's line is part of the exchange, equal for all of its threads.
  WL_DEVICE void send(char* slot, Words<WORDS> data, bool active) const {
    Part part;
#pragma unroll
    for (int i = 0; i < WORDS / 2; ++i) part.v[i] = u64(data.w[2 * i + 1]) << 32 | data.w[2 * i];
    if (holds_flag(thread_index())) part.v[WORDS / 2 - 1] = ll128_flag(epoch, pass);
    warp_meets();
    if (active) store_part(slot, part);
  }
  WL_DEVICE Part look(const char* slot, bool wanted) const {
    warp_meets();
    return wanted ? load_part(slot) : Part{};
  }
  WL_DEVICE bool wait(const char* slot, Part& seen, bool wanted, Awaited what, const Lane& lane) const {
    Part one[1] = {seen};
    const u32 looks = wanted & holds_flag(thread_index());
    const auto flag = [&](int) WL_INLINE { return flag_of(one[0]); };
    const bool come = poll_lines(
        one, [&](int) WL_INLINE { return wanted; },
        [&](int i) WL_INLINE { return looks & u32(flag(i) != ll128_flag(epoch, pass)); },
        [&](int) WL_INLINE { return slot; }, [&](int) WL_INLINE { return what; },
        [&](int i) WL_INLINE { return u32(flag(i)); }, epoch, lane);
    seen = one[0];
    return come;
  }
  WL_DEVICE Words<WORDS> data(Part v) const {
    Words<WORDS> words;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) words.w[i] = u32(v.v[i / 2] >> 32 * (i % 2));
    return words;
  }
};

}  // namespace worldline
