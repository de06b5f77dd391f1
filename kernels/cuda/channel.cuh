// One block's channel of a sentinel all-reduce as one thread sees it.
//
// Block b exchanges with block b of every peer, through slots of its own. It works in passes: in each
// its threads send some items, then receive and add as many. The last warp has no items, but
// exchanges tokens with the peers' blocks, so that slots can be filled again: of a launch of one pass
// block 0's does it for all.
#pragma once
#include "arguments.cuh"
#include "counters.cuh"
#include "overlap.cuh"
#include "reduce.cuh"
#include "sentinel.cuh"
#include "tokens.cuh"
#include "vectors.cuh"

namespace worldline {

// A block's one-way barriers: its threads have sent a pass, helpers let them fill slots in the next.
constexpr int SENT = 1, GRANTED = 2;

template <int WORLD>
constexpr u64 CHANNEL_BYTES = WORLD <= FEW_RANKS ? CHANNEL : 2 * CHANNEL;

// A thread's items of a pass lie `workers` apart. RANK and WORLD are constants: ranks are added in
// order without a look-up. LOOPS: whether there may be more than one pass.
template <int RANK, int WORLD, class NUMBERS, bool LOOPS>
struct Channel {
  using Data = Words<Sentinel::WORDS>;
  static constexpr u32 HELPERS = WARP;
  static constexpr int PEERS = WORLD > 1 ? WORLD - 1 : 1;

  const AllReduce& a;
  const u64 own;
  const u32 workers, thread, launch_point;
  const u64 stride;  // in bytes
  const u64 at;      // the thread's first slot, from an arena's start
  Sentinel pass;
  u32* const word;
  u32* const busy;
  u64 home[WORLD];  // where that is; several passes leave no registers for it
  u32 first_token = 0, first_heard = 0;  // a helper's tokens in the launch's first pass
  u32 found = 0;
  bool alive = false;

  WL_DEVICE explicit Channel(const AllReduce& arguments)
      : a(arguments),
        own(arguments.lane.base[RANK]),
        workers(block_threads() - HELPERS),
        thread(thread_index()),
        launch_point(arguments.launch_point),
        stride(arguments.stride * SLOT),
        at(arguments.region + u64(block_index()) * CHANNEL_BYTES<WORLD> + u64(thread) * SLOT),
        pass(arguments.buffer),
        word(block_word(own, STAGES, block_index())),
        busy(busy_word(own)) {
#pragma unroll
    for (int rank = 0; rank < WORLD; ++rank) home[rank] = a.lane.base[rank] + at;
  }

  // Wait for the predecessor, with all this and `more` computed before.
  template <class... More>
  WL_DEVICE void wait(More... more) const {
    u64 ready = ((own | at | workers | launch_point | a.buffer | stride | u64(word) | u64(busy)) | ... | u64(more));
#pragma unroll
    for (int rank = 0; rank < WORLD; ++rank)
      if (!LOOPS) ready |= home[rank];
    wait_for_predecessor(ready);
    if (launch_point == 0) launch_successor();
  }

  // Ask for everything that the launch hangs on before using any of it: the answers take as long
  // together as one does.
  template <class Load>
  WL_DEVICE void begin(Load load) {
    const u32 last = load_u32(word);
    alive = lane_alive(own);
    load();
    pass.begin(last);
  }
  // Other threads' waits may have failed, the helpers' too: then slots may still be full.
  template <class Load>
  WL_DEVICE void next(Load load) {
    wait_at(GRANTED);
    const bool still = lane_alive(own);
    load();
    alive = alive && still;
    pass.begin(pass.count);
  }
  // Between sending and receiving is time for what nobody waits for.
  WL_DEVICE void sent() {
    if (launch_point == 1) launch_successor();
    keep();
    found = enter_lane(busy);
  }
  // Tell the helpers that the thread has read the count, and that its pass before is over.
  WL_DEVICE void keep() const { arrive_at(SENT); }
  WL_DEVICE void leave() { leave_lane(a.lane, busy, found, alive); }

  WL_DEVICE bool helps() const { return thread >= workers; }
  // A helper's part, for passes `step` apart from `base` up to `end`. In pass k it tells the peers that
  // all of k - 1 is empty again, and waits until they have told so in k - 1, but for the first pass's
  // own token: what they emptied in k - 2 is filled again in k + 1. The last wait holds up nobody but
  // the next kernel.
  //
  // A fence takes as long as data does: threads with items never wait for one, and where the launch
  // is one pass, whose first token covers every block's passes before, one block's is enough. If the
  // launch before was one pass as well, so did its token, which is waited for instead: it has come.
  WL_DEVICE void help(u64 base, u64 step, u64 end) {
    const bool several = LOOPS && step < end, zero = block_index() == 0;
    u32* const shape = reinterpret_cast<u32*>(own + SEVERAL);
    const u32 last = load_u32(word), before = zero ? load_u32(shape) : 1;
    alive = lane_alive(own);
    pass.begin(last);
    first_token = token();
    first_heard = first_token - (several || before ? 0 : TOKEN_STEP);
    const bool exchanges = several || zero || token_is_due(first_token);
    if (exchanges) {
      fence_system();
      tell();
    }
    if (launch_point == 1) launch_successor();
    for (;;) {
      const bool more = LOOPS && base + step < end;
      wait_at(SENT);
      if (thread == workers) store_u32(word, pass.count);
      if (thread == workers && zero) store_u32(shape, several);
      if (more) {
        hear();
        arrive_at(GRANTED);
      }
      if (token() != first_token) {
        fence_system();
        tell();
      }
      if (!more) break;
      base += step;
      pass.begin(pass.count);
    }
    if (exchanges) hear();
    if (!alive) give_notice(a.lane);
  }

  // Which of the peers of rank `at` another is: a channel has no slots for the rank's own data.
  WL_DEVICE static constexpr int peer(int rank, int at) { return rank - int(rank > at); }
  WL_DEVICE char* slot(int arena, int shot, int source, u32 lane) const {
    return pass.slot(LOOPS ? a.lane.base[arena] + at : home[arena], (shot * PEERS + peer(source, arena)) * stride + u64(lane) * SLOT);
  }
  WL_DEVICE void send(int peer, int shot, u32 lane, Data data) const {
    if (alive) pass.template send<NUMBERS>(slot(peer, shot, RANK, lane), data);
  }
  WL_DEVICE void send_to_all(int shot, u32 lane, Data data) const {
#pragma unroll
    for (int step = 1; step < WORLD; ++step) send((RANK + step) % WORLD, shot, lane, data);
  }
  // Wait for N items from `first` on of every peer, those that are `wanted(item, peer)`, all at once,
  // and let `use` them: what came of an item is seen[item * WORLD + peer].
  template <int N, class Wanted, class Use>
  WL_DEVICE void receive(int shot, int first, Wanted wanted, Use use) {
    const auto item = [&](int i) WL_INLINE { return first + i / WORLD; };
    const auto theirs = [&](int i) WL_INLINE { return i % WORLD != RANK && wanted(item(i), i % WORLD); };
    char* const home = slot(RANK, shot, 0, 0);
    // Addresses of many slots would not stay in the registers: each is worked out when it is used.
    const auto from = [&](int i) WL_INLINE {
      if constexpr (WORLD <= 3) return slot(RANK, shot, i % WORLD, item(i) * workers);
      const u32 slots = not_before_here(u32(a.stride));
      return home + u64(peer(i % WORLD, RANK) * slots + item(i) * workers) * SLOT;
    };
    Pair seen[N * WORLD];
#pragma unroll
    for (int i = 0; i < N * WORLD; ++i)
      if (theirs(i)) seen[i] = load_pair(from(i));
    const auto where = [&](int i) WL_INLINE {
      const u64 index = block_index() * (CHANNEL_BYTES<WORLD> / SLOT) + (shot * PEERS + peer(i % WORLD, RANK)) * a.stride + thread;
      return Awaited{i % WORLD, u32(index) + item(i) * workers};
    };
    if (alive) alive = pass.wait(seen, theirs, from, where, a.lane);
    use(seen);
  }

 private:
  WL_DEVICE u32 token() const { return pass.count & ~(TOKEN_STEP - 1); }
  WL_DEVICE void tell() const {
    if (alive) send_tokens<RANK, WORLD>(a.lane, token(), thread - workers, HELPERS);
  }
  WL_DEVICE void hear() {
    const u32 told = token() == first_token ? first_heard : token() - TOKEN_STEP;
    if (alive) alive = wait_tokens<RANK, WORLD>(a.lane, told, thread - workers, HELPERS);
  }
};

}  // namespace worldline
