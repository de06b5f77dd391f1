// One launch over LL or LL128 as one thread sees it: slots sent, received and added.
#pragma once
#include "arguments.cuh"
#include "ll.cuh"
#include "ll128.cuh"
#include "overlap.cuh"
#include "reduce.cuh"
#include "vectors.cuh"

namespace worldline {

// Items, a thread's part of a slot each, count from the thread's first. RANK and WORLD are constants:
// ranks are added in order without a look-up. `how`: what the protocol asks of each access.
template <class PROTOCOL, int RANK, int WORLD, class NUMBERS, class ARGUMENTS = AllReduce>
struct Exchange {
  using Data = Words<PROTOCOL::WORDS>;
  using Look = typename PROTOCOL::Look;

  const ARGUMENTS& a;
  const u64 own;
  const u32 thread, threads, launch_point;
  const u64 stride;  // in bytes
  PROTOCOL protocol;
  u32* const word;
  u32* const busy;
  u64 home[WORLD];  // the thread's first slot in each arena's first buffer
  u32 found = 0;
  bool alive = false;

  WL_DEVICE explicit Exchange(const ARGUMENTS& arguments)
      : a(arguments),
        own(arguments.lane.base[RANK]),
        thread(block_index() * block_threads() + thread_index()),
        threads(grid_blocks() * block_threads()),
        launch_point(arguments.launch_point),
        stride(arguments.stride * SLOT),
        protocol(arguments.buffer),
        word(block_word(own, EPOCHS, block_index())),
        busy(busy_word(own)) {
#pragma unroll
    for (int rank = 0; rank < WORLD; ++rank) home[rank] = a.lane.base[rank] + a.region + u64(thread) * PROTOCOL::BYTES;
  }

  // Wait for the predecessor, with all this and `more` computed before.
  template <class... More>
  WL_DEVICE void wait(More... more) const {
    u64 ready = ((own | thread | threads | launch_point | a.buffer | stride | u64(word) | u64(busy)) | ... | u64(more));
#pragma unroll
    for (int rank = 0; rank < WORLD; ++rank) ready |= home[rank];
    wait_for_predecessor(ready);
    if (launch_point == 0) launch_successor();
  }

  // Ask for everything that the launch hangs on before using any of it: the answers take as long
  // together as one does.
  template <class Load>
  WL_DEVICE Data begin(Load load) {
    const u32 last = load_u32(word);
    alive = lane_alive(own);
    const Data first = load();
    alive = PROTOCOL::agreed(alive);
    protocol.begin(own, last, thread, threads);
    return first;
  }
  // Between sending and receiving is time for what nobody waits for.
  WL_DEVICE void sent() {
    if (launch_point == 1) launch_successor();
    advance_words(own, EPOCHS, protocol.epoch);
    found = enter_lane(busy);
  }
  WL_DEVICE void leave() { leave_lane(a.lane, busy, found, alive); }

  WL_DEVICE char* slot(int arena, int shot, int source, u64 item) const {
    return protocol.slot(home[arena], (shot * WORLD + source) * stride + item * PROTOCOL::BYTES);
  }
  template <class... How>
  WL_DEVICE void send(int peer, int shot, u64 item, Data data, How... how) const {
    if (alive) protocol.send(slot(peer, shot, RANK, item), data, how...);
  }
  template <class... How>
  WL_DEVICE void send_to_all(int shot, u64 item, Data data, How... how) const {
#pragma unroll
    for (int step = 1; step < WORLD; ++step) send((RANK + step) % WORLD, shot, item, data, how...);
  }

  WL_DEVICE void send_if(bool active, int peer, int shot, u64 item, Data data) const {
    if constexpr (PROTOCOL::AT_ONCE) {
      if (active) send(peer, shot, item, data);
    } else {
      send(peer, shot, item, data, active);
    }
  }

  // Look at a slot of every peer that is `wanted`: the answers take as long together as one does.
  template <class Wanted>
  WL_DEVICE void look(Look (&seen)[WORLD], int shot, u64 item, Wanted wanted) const {
#pragma unroll
    for (int peer = 0; peer < WORLD; ++peer)
      if (peer != RANK) seen[peer] = protocol.look(slot(RANK, shot, peer, item), wanted(peer));
  }
  // Then wait for them all at once, if the protocol can.
  template <class Wanted>
  WL_DEVICE void receive(Look (&seen)[WORLD], int shot, u64 item, Wanted wanted) {
    look(seen, shot, item, wanted);
    const auto from = [&](int peer) WL_INLINE { return slot(RANK, shot, peer, item); };
    const auto where = [&](int peer) WL_INLINE { return awaited(peer, shot, item); };
    if (alive) alive = protocol.template wait<RANK>(seen, wanted, from, where, a.lane);
  }
  // Else for one after another.
  WL_DEVICE void receive_from(int peer, Look& seen, int shot, u64 item, bool wanted) {
    if (alive) alive = protocol.wait(slot(RANK, shot, peer, item), seen, wanted, awaited(peer, shot, item), a.lane);
  }
  WL_DEVICE Awaited awaited(int peer, int shot, u64 item) const {
    const u64 index = (shot * WORLD + peer) * a.stride + (thread + item) * (PROTOCOL::BYTES / SLOT);
    return {peer, u32(index)};
  }
  // Wait for every peer's data of one slot and add all ranks' in order.
  WL_DEVICE Data reduce(int shot, u64 item, Data mine, bool active = true) {
    const auto wanted = [&](int) WL_INLINE { return active; };
    Look seen[WORLD];
    if constexpr (PROTOCOL::AT_ONCE)
      receive(seen, shot, item, wanted);
    else
      look(seen, shot, item, wanted);
    return in_rank_order<RANK, WORLD, NUMBERS>(mine, a.scale, [&](int peer) WL_INLINE {
      if constexpr (!PROTOCOL::AT_ONCE) receive_from(peer, seen[peer], shot, item, active);
      return protocol.data(seen[peer]);
    });
  }
};

// A thread's items of a launch, from its first: one, or every so-manyth.
template <bool LOOPS, class Body>
WL_DEVICE void each(u32 thread, u32 threads, u64 items, Body body) {
  if constexpr (LOOPS) {
    for (u64 item = 0; thread + item < items; item += threads) body(item);
  } else {
    if (thread < items) body(u64(0));
  }
}

}  // namespace worldline
