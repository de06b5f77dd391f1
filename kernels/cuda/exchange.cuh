// One launch of an all-reduce as one thread sees it: slots of a protocol, sent, received and added.
#pragma once
#include "ll.cuh"
#include "overlap.cuh"
#include "sentinel.cuh"
#include "vectors.cuh"

namespace worldline {

struct AllReduce {
  Lane lane;
  const void* source;
  void* target;
  u64 count;
  u64 items;   // of a slot's data in the input, rounded up
  u64 share;   // items to a rank in the two-shot, rounded up
  u64 region;  // offset of the protocol's slots in every arena
  u64 buffer;  // bytes of one of its halves or stages
  u64 stride;  // slots from one source's to the next's
  u32 launch_point;  // 0: the successor may start after the wait; 1: after the stores
};

// Items count from the thread's first. RANK and WORLD are constants: ranks are added in order without
// a look-up. A block's last threads may be helpers, which have no items.
template <class PROTOCOL, int RANK, int WORLD, int DTYPE>
struct Exchange {
  using Data = Words<PROTOCOL::WORDS>;

  const AllReduce& a;
  const u64 own;
  const u32 workers, thread, threads, launch_point;
  const u64 stride;  // in bytes
  PROTOCOL protocol;
  u32* const word;
  u32* const busy;
  u64 home[WORLD];  // the thread's first slot in each arena's first buffer
  u32 found = 0;
  bool alive = false;

  WL_DEVICE explicit Exchange(const AllReduce& arguments)
      : a(arguments),
        own(arguments.lane.base[RANK]),
        workers(block_threads() - PROTOCOL::HELPERS),
        thread(helps() ? 0xffffffffu : block_index() * workers + thread_index()),
        threads(grid_blocks() * workers),
        launch_point(arguments.launch_point),
        stride(arguments.stride * SLOT),
        protocol(arguments.buffer),
        word(block_word(own, PROTOCOL::COUNTER, block_index())),
        busy(busy_word(own)) {
#pragma unroll
    for (int rank = 0; rank < WORLD; ++rank) home[rank] = a.lane.base[rank] + a.region + u64(thread) * SLOT;
  }

  WL_DEVICE bool helps() const { return PROTOCOL::HELPERS > 0 && thread_index() >= workers; }

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
    protocol.begin(own, last, thread, threads);
    return first;
  }
  // Between sending and receiving is time for what nobody waits for.
  WL_DEVICE void sent() {
    if (launch_point == 1) launch_successor();
    advance_words(own, PROTOCOL::COUNTER, protocol.number());
    found = enter_lane(busy);
    if constexpr (PROTOCOL::HELPERS > 0)
      if (alive && helps() && block_index() == 0)
        alive = protocol.template help<RANK, WORLD>(a.lane, thread_index() - workers);
  }
  WL_DEVICE void leave() { leave_lane(a.lane, busy, found, alive); }

  WL_DEVICE char* slot(int arena, int shot, int source, u64 item) const {
    return protocol.slot(home[arena], (shot * WORLD + source) * stride + item * SLOT);
  }
  WL_DEVICE void send(int peer, int shot, u64 item, Data data) const {
    if (alive) protocol.template send<DTYPE>(slot(peer, shot, RANK, item), data);
  }
  WL_DEVICE void send_to_all(int shot, u64 item, Data data) const {
#pragma unroll
    for (int step = 1; step < WORLD; ++step) send((RANK + step) % WORLD, shot, item, data);
  }
  WL_DEVICE Data receive(int peer, int shot, u64 item, Pair first) {
    const u64 index = (shot * WORLD + peer) * a.stride + thread + item;
    if (alive) alive = protocol.wait(slot(RANK, shot, peer, item), first, a.lane, peer, u32(index));
    return protocol.data(first);
  }
  WL_DEVICE Pair look(int peer, int shot, u64 item) const { return load_pair(slot(RANK, shot, peer, item)); }

  // Wait for every peer's data of one slot and add all ranks' in order.
  WL_DEVICE Data reduce(int shot, u64 item, Data mine) {
    Pair first[WORLD];
#pragma unroll
    for (int rank = 0; rank < WORLD; ++rank)
      if (rank != RANK) first[rank] = look(rank, shot, item);
    Values<DTYPE, PROTOCOL::WORDS> total;
#pragma unroll
    for (int rank = 0; rank < WORLD; ++rank) {
      const Data data = rank == RANK ? mine : receive(rank, shot, item, first[rank]);
      if (rank == 0)
        total = unpack<DTYPE>(data);
      else
        accumulate(total, unpack<DTYPE>(data));
    }
    return pack<WORLD>(total);
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
