// The two-shots' shares of a tensor's lines, and their second shot's end.
//
// Rank r owns lines [r * share, (r + 1) * share). A block whose first line a share does not hold
// exchanges that line all the same, as a token.
#pragma once
#include "arguments.cuh"
#include "line_items.cuh"

namespace worldline {

// As one thread sees them: items count from its first of a share.
template <class NUMBERS, bool WIDE>
struct LineShares {
  using Data = Words<Ll128::WORDS>;

  const u32 thread;
  const u64 parts, share;
  const LineItems<NUMBERS, WIDE> source, target;

  WL_DEVICE LineShares(const AllReduce& a, u32 thread)
      : thread(thread),
        parts(a.items * LINE_LANES),
        share(a.share * LINE_LANES),
        source(a.source, a.count, thread),
        target(a.target, a.count, thread) {}

  // What is to be worked out before the wait for the predecessor.
  WL_DEVICE u64 ready() const { return parts | share | source.ready() | target.ready(); }

  // A thread's items of a share, with its whole warp.
  template <bool LOOPS, class Body>
  WL_DEVICE void each(u32 threads, Body body) const {
    each_of_warp<LOOPS>(thread, threads, share, [&](u64 item, bool) { body(item); });
  }
  WL_DEVICE bool holds(int owner, u64 item) const {
    return thread + item < share && owner * share + thread + item < parts;
  }
  WL_DEVICE bool exchanged(int owner, u64 item) const {
    return holds(owner, item) || (thread_index() < LINE_LANES && item == 0);
  }
  WL_DEVICE Data load(int owner, u64 item) const {
    return holds(owner, item) ? source.load(owner * share + item) : Data{};
  }
  WL_DEVICE void store(int owner, u64 item, Data w, bool alive) const {
    if (holds(owner, item)) target.store(owner * share + item, alive ? w : spoilt_words<NUMBERS, Ll128::WORDS>());
  }
};

// Wait for every other owner's results.
template <int RANK, int WORLD, bool LOOPS, class Over, class Shares>
WL_DEVICE void receive_results(Over& exchange, const Shares& shares) {
  shares.template each<LOOPS>(exchange.threads, [&](u64 item) {
    Part seen[WORLD];
    exchange.look(seen, 1, item, [&](int owner) WL_INLINE { return shares.exchanged(owner, item); });
#pragma unroll
    for (int owner = 0; owner < WORLD; ++owner) {
      if (owner == RANK) continue;
      exchange.receive_from(owner, seen[owner], 1, item, shares.exchanged(owner, item));
      shares.store(owner, item, exchange.protocol.data(seen[owner]), exchange.alive);
    }
  });
}

}  // namespace worldline
