// Waiting for a slot in the own memory, with a deadline.
#pragma once
#include "deadline.cuh"

namespace worldline {

// Of a slot, between two looks at the count of polls: what comes in between makes arrivals be seen
// later. Counting each poll cost 0.06 us a call at 16 KB on two H200s.
constexpr int POLLS = 4;

// Poll N slots until none is missing; false if the wait failed. A round looks again at all that are
// missing, at once: one after another each would cost a look's time of its own. `missing(i)` says
// whether what was last seen of slot i does not do, and is not asked again once it does; constantly
// no of a slot that nobody waits for. `look_again(i)` looks; `more(patience)` is asked now and then
// whether to go on.
template <int N, class Missing, class LookAgain, class More>
WL_DEVICE bool poll(Missing missing, LookAgain look_again, More more) {
  bool left[N], any = false;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    left[i] = missing(i);
    any = any || left[i];
  }
  if (!any) return true;
  Patience patience;
#pragma unroll 1
  for (u32 rounds = 1;; ++rounds) {
#pragma unroll
    for (int poll = 0; poll < POLLS; ++poll) {
      pause();
#pragma unroll
      for (int i = 0; i < N; ++i)
        if (left[i]) look_again(i);
      any = false;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        left[i] = left[i] && missing(i);
        any = any || left[i];
      }
      if (!any) return true;
    }
#ifndef WL_NO_DEADLINE  // The bench measures what the deadline costs.
    if (rounds % (SPINS / POLLS) == 0 && !more(patience)) return false;
#endif
  }
}

// Whose slot, and which, for the record of a wait in vain.
struct Awaited {
  int peer;
  u32 index;
};

// Slots that a thread waits for by itself: `wanted(i)`, `slot(i)` and `where(i)` of each, `arrived` and
// `flag` of a look, `came(i)` told of each as soon as it has. `number` is the operation's epoch or
// count, `flag` what a look shows of the sender's.
template <int N, class Wanted, class Slot, class Where, class Arrived, class Came, class Flag>
WL_DEVICE bool poll_pairs(Pair (&seen)[N], Wanted wanted, Slot slot, Where where, Arrived arrived, Came came, Flag flag,
                          u32 number, const Lane& lane) {
  const auto missing = [&](int i) WL_INLINE { return wanted(i) && !arrived(seen[i]); };
  return poll<N>(
      [&](int i) WL_INLINE {
        if (!wanted(i)) return false;
        if (!arrived(seen[i])) return true;
        came(i);
        return false;
      },
      [&](int i) WL_INLINE { seen[i] = load_pair(slot(i)); },
      [&](Patience& patience) {
        Awaited first{};
        u32 shown = 0;
#pragma unroll
        for (int i = N - 1; i >= 0; --i)
          if (missing(i)) first = where(i), shown = flag(seen[i]);
        return patience.more(lane, number, first.peer, first.index, shown);
      });
}

}  // namespace worldline
