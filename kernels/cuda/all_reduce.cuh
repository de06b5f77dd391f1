// All-reduce over LL slots in CUDA: twin of all_reduce_ll.py, same slots, same bits.
//
// Two forms of each kernel. With LOOPS a thread takes one item of 8 bytes after another. Without, the
// launch has a thread for every item: its input is read once, before the epoch is known, and stays in
// registers.
#pragma once
#include "epochs.cuh"
#include "ll.cuh"
#include "overlap.cuh"
#include "vectors.cuh"

namespace worldline {

struct AllReduce {
  Lane lane;
  const void* source;
  void* target;
  u64 count;
  u64 items;   // of 8 bytes in the input, rounded up
  u64 share;   // items to a rank in the two-shot, rounded up
  u64 half;    // bytes of half the LL region
  u64 stride;  // slots from one source's to the next's
  u32 launch_point;  // 0: the successor may start after the wait; 1: after the stores
};

// One launch as one thread sees it: items count from the thread's first. RANK and WORLD are constants:
// ranks are added in order without a look-up.
template <int RANK, int WORLD>
struct Exchange {
  const AllReduce& a;
  const u64 own;
  const u32 thread, threads, launch_point;
  const u64 half, stride;  // in bytes
  u32* const word;
  u32* const busy;
  u64 home[WORLD];  // the thread's first slot in each arena's even half
  u32 found = 0, epoch = 0;
  bool alive = false;

  WL_DEVICE explicit Exchange(const AllReduce& arguments)
      : a(arguments),
        own(arguments.lane.base[RANK]),
        thread(block_index() * block_threads() + thread_index()),
        threads(grid_blocks() * block_threads()),
        launch_point(arguments.launch_point),
        half(arguments.half),
        stride(arguments.stride * SLOT),
        word(epoch_word(own, block_index())),
        busy(busy_word(own)) {
#pragma unroll
    for (int rank = 0; rank < WORLD; ++rank) home[rank] = a.lane.base[rank] + LL + u64(thread) * SLOT;
  }

  // Wait for the predecessor, with all this and `more` computed before.
  template <class... More>
  WL_DEVICE void wait(More... more) const {
    u64 ready = ((own | thread | threads | launch_point | half | stride | u64(word) | u64(busy)) | ... | u64(more));
#pragma unroll
    for (int rank = 0; rank < WORLD; ++rank) ready |= home[rank];
    wait_for_predecessor(ready);
    if (launch_point == 0) launch_successor();
  }

  // Ask for everything that the launch hangs on before using any of it: the answers take as long
  // together as one does.
  template <class Load>
  WL_DEVICE Words begin(Load load) {
    const u32 last = load_u32(word);
    alive = lane_alive(own);
    const Words first = load();
    epoch = epoch_after(last);
    clear_before_wrap(own, epoch, thread, threads, half);
    return first;
  }
  // Between sending and receiving is time for what nobody waits for.
  WL_DEVICE void sent() {
    if (launch_point == 1) launch_successor();
    advance_epoch(own, epoch);
    found = enter_lane(busy);
  }
  WL_DEVICE void leave() { leave_lane(a.lane, busy, found, alive); }

  WL_DEVICE char* slot(int arena, int shot, int source, u64 item) const {
    return ll_slot(home[arena], epoch, half, (shot * WORLD + source) * stride + item * SLOT);
  }
  WL_DEVICE void send(int peer, int shot, u64 item, Words data) const {
    if (alive) ll_send(slot(peer, shot, RANK, item), data, epoch);
  }
  WL_DEVICE void send_to_all(int shot, u64 item, Words data) const {
#pragma unroll
    for (int step = 1; step < WORLD; ++step) send((RANK + step) % WORLD, shot, item, data);
  }
  WL_DEVICE Words receive(int peer, int shot, u64 item, Pair first) {
    const u64 index = (shot * WORLD + peer) * a.stride + thread + item;
    if (alive) alive = ll_wait(slot(RANK, shot, peer, item), first, epoch, a.lane, peer, u32(index));
    return ll_data(first);
  }
  WL_DEVICE Pair look(int peer, int shot, u64 item) const { return load_pair(slot(RANK, shot, peer, item)); }

  // Wait for every peer's data of one slot and add all ranks' in order.
  template <int DTYPE>
  WL_DEVICE Words reduce(int shot, u64 item, Words mine) {
    Pair first[WORLD];
#pragma unroll
    for (int rank = 0; rank < WORLD; ++rank)
      if (rank != RANK) first[rank] = look(rank, shot, item);
    Values<DTYPE> total;
#pragma unroll
    for (int rank = 0; rank < WORLD; ++rank) {
      const Words data = rank == RANK ? mine : receive(rank, shot, item, first[rank]);
      if (rank == 0)
        total = unpack<DTYPE>(data);
      else
        accumulate<DTYPE>(total, unpack<DTYPE>(data));
    }
    return pack<DTYPE, WORLD>(total);
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

template <int RANK, int WORLD, int DTYPE, bool WIDE, bool LOOPS>
WL_DEVICE void all_reduce_ll_one_shot(const AllReduce& a) {
  Exchange<RANK, WORLD> exchange(a);
  const u32 thread = exchange.thread;
  const u64 items = a.items, count = a.count - u64(thread) * PER_ITEM<DTYPE>;
  const char* source = static_cast<const char*>(a.source) + u64(thread) * ITEM;
  char* target = static_cast<char*>(a.target) + u64(thread) * ITEM;
  exchange.wait(items, count, source, target);
  const Words mine = exchange.begin([&] {
    return thread < items ? load_item<DTYPE, WIDE>(source, 0, count) : Words{0, 0};
  });
  auto input = [&](u64 item) { return item == 0 ? mine : load_item<DTYPE, WIDE>(source, item, count); };

  each<LOOPS>(thread, exchange.threads, items, [&](u64 item) {
    exchange.send_to_all(0, item, input(item));
  });
  exchange.sent();
  each<LOOPS>(thread, exchange.threads, items, [&](u64 item) {
    const Words sum = exchange.template reduce<DTYPE>(0, item, input(item));
    store_item<DTYPE, WIDE>(target, item, count, exchange.alive ? sum : nan_words<DTYPE>());
  });
  exchange.leave();
}

// Rank r owns items [r * share, (r + 1) * share). A block whose first item a share does not hold
// exchanges that slot all the same, as a token.
template <int RANK, int WORLD, int DTYPE, bool WIDE, bool LOOPS>
WL_DEVICE void all_reduce_ll_two_shot(const AllReduce& a) {
  Exchange<RANK, WORLD> exchange(a);
  const u32 thread = exchange.thread;
  const u64 items = a.items, share = a.share;
  auto place = [&](int owner, u64 item) { return owner * share + thread + item; };
  auto holds = [&](int owner, u64 item) { return place(owner, item) < items && thread + item < share; };
  auto exchanged = [&](int owner, u64 item) {
    return holds(owner, item) || (thread_index() == 0 && item == 0);
  };
  auto load = [&](int owner, u64 item) {
    return holds(owner, item) ? load_item<DTYPE, WIDE>(a.source, place(owner, item), a.count) : Words{0, 0};
  };
  auto store = [&](int owner, u64 item, Words w) {
    if (holds(owner, item))
      store_item<DTYPE, WIDE>(a.target, place(owner, item), a.count, exchange.alive ? w : nan_words<DTYPE>());
  };
  exchange.wait(items, share, a.source, a.target, a.count);
  exchange.begin([] { return Words{0, 0}; });

  each<LOOPS>(thread, exchange.threads, share, [&](u64 item) {
#pragma unroll
    for (int step = 1; step < WORLD; ++step) {
      const int owner = (RANK + step) % WORLD;
      if (exchanged(owner, item)) exchange.send(owner, 0, item, load(owner, item));
    }
  });
  exchange.sent();
  each<LOOPS>(thread, exchange.threads, share, [&](u64 item) {
    if (!exchanged(RANK, item)) return;
    const Words sum = exchange.template reduce<DTYPE>(0, item, load(RANK, item));
    exchange.send_to_all(1, item, sum);
    store(RANK, item, sum);
  });
  each<LOOPS>(thread, exchange.threads, share, [&](u64 item) {
    Pair first[WORLD];
#pragma unroll
    for (int owner = 0; owner < WORLD; ++owner)
      if (owner != RANK && exchanged(owner, item)) first[owner] = exchange.look(owner, 1, item);
#pragma unroll
    for (int owner = 0; owner < WORLD; ++owner)
      if (owner != RANK && exchanged(owner, item)) store(owner, item, exchange.receive(owner, 1, item, first[owner]));
  });
  exchange.leave();
}

}  // namespace worldline
