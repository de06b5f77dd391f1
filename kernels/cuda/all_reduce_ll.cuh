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

// One launch as one thread sees it. RANK and WORLD are constants: ranks are added in order without
// a look-up.
template <int RANK, int WORLD>
struct Exchange {
  const AllReduce& a;
  const u64 own;
  const u32 thread, threads;
  u32 word, found, epoch = 0;
  bool entered_alive, alive;

  // Ask for everything that the launch hangs on before using any of it: the answers take as long
  // together as one does.
  WL_DEVICE explicit Exchange(const AllReduce& arguments)
      : a(arguments),
        own(arguments.lane.base[RANK]),
        thread(block_index() * block_threads() + thread_index()),
        threads(grid_blocks() * block_threads()),
        word(load_u32(epoch_word(own, block_index()))),
        found(0),
        entered_alive(lane_alive(own)),
        alive(entered_alive) {}

  WL_DEVICE void begin() {
    epoch = epoch_after(word);
    clear_before_wrap(own, epoch, thread, threads, a.half);
  }
  // Between sending and receiving is time for what nobody waits for.
  WL_DEVICE void sent() {
    if (a.launch_point == 1) launch_successor();
    advance_epoch(own, epoch);
    found = enter_lane(own);
  }
  WL_DEVICE void leave() { leave_lane(a.lane, own, found, entered_alive); }

  WL_DEVICE u64 index(int shot, int source, u64 item) const {
    return u64(shot * WORLD + source) * a.stride + item;
  }
  WL_DEVICE char* slot(int arena, int shot, int source, u64 item) const {
    return ll_slot(a.lane.base[arena], epoch, a.half, index(shot, source, item));
  }
  WL_DEVICE void send(int peer, int shot, u64 item, Words data) const {
    if (alive) ll_send(slot(peer, shot, RANK, item), data, epoch);
  }
  WL_DEVICE void send_to_all(int shot, u64 item, Words data) const {
#pragma unroll
    for (int step = 1; step < WORLD; ++step) send((RANK + step) % WORLD, shot, item, data);
  }
  WL_DEVICE Words receive(int peer, int shot, u64 item, Pair first) {
    if (alive)
      alive = ll_wait(slot(RANK, shot, peer, item), first, epoch, a.lane, peer, u32(index(shot, peer, item)));
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

// A thread's items of a launch: one, or every so-manyth.
template <bool LOOPS, class Body>
WL_DEVICE void each(u32 thread, u32 threads, u64 items, Body body) {
  if constexpr (LOOPS) {
    for (u64 item = thread; item < items; item += threads) body(item);
  } else {
    if (thread < items) body(u64(thread));
  }
}

template <int RANK, int WORLD, int DTYPE, bool WIDE, bool LOOPS>
WL_DEVICE void all_reduce_ll_one_shot(const AllReduce& a) {
  wait_for_predecessor();
  if (a.launch_point == 0) launch_successor();
  Exchange<RANK, WORLD> exchange(a);
  const u32 thread = exchange.thread;
  Words mine{0, 0};
  if (thread < a.items) mine = load_item<DTYPE, WIDE>(a.source, thread, a.count);
  exchange.begin();
  auto input = [&](u64 item) {
    return item == thread ? mine : load_item<DTYPE, WIDE>(a.source, item, a.count);
  };

  each<LOOPS>(thread, exchange.threads, a.items, [&](u64 item) {
    exchange.send_to_all(0, item, input(item));
  });
  exchange.sent();
  each<LOOPS>(thread, exchange.threads, a.items, [&](u64 item) {
    const Words sum = exchange.template reduce<DTYPE>(0, item, input(item));
    store_item<DTYPE, WIDE>(a.target, item, a.count, exchange.alive ? sum : nan_words<DTYPE>());
  });
  exchange.leave();
}

// Rank r owns items [r * share, (r + 1) * share). A block whose first item a share does not hold
// exchanges that slot all the same, as a token.
template <int RANK, int WORLD, int DTYPE, bool WIDE, bool LOOPS>
WL_DEVICE void all_reduce_ll_two_shot(const AllReduce& a) {
  wait_for_predecessor();
  if (a.launch_point == 0) launch_successor();
  Exchange<RANK, WORLD> exchange(a);
  const u32 thread = exchange.thread;
  auto holds = [&](int owner, u64 item) { return owner * a.share + item < a.items && item < a.share; };
  auto exchanged = [&](int owner, u64 item) {
    return holds(owner, item) || (thread_index() == 0 && item == thread);
  };
  auto load = [&](int owner, u64 item) {
    return holds(owner, item) ? load_item<DTYPE, WIDE>(a.source, owner * a.share + item, a.count) : Words{0, 0};
  };
  auto store = [&](int owner, u64 item, Words w) {
    if (holds(owner, item))
      store_item<DTYPE, WIDE>(a.target, owner * a.share + item, a.count, exchange.alive ? w : nan_words<DTYPE>());
  };
  exchange.begin();

  each<LOOPS>(thread, exchange.threads, a.share, [&](u64 item) {
#pragma unroll
    for (int step = 1; step < WORLD; ++step) {
      const int owner = (RANK + step) % WORLD;
      if (exchanged(owner, item)) exchange.send(owner, 0, item, load(owner, item));
    }
  });
  exchange.sent();
  each<LOOPS>(thread, exchange.threads, a.share, [&](u64 item) {
    if (!exchanged(RANK, item)) return;
    const Words sum = exchange.template reduce<DTYPE>(0, item, load(RANK, item));
    exchange.send_to_all(1, item, sum);
    store(RANK, item, sum);
  });
  each<LOOPS>(thread, exchange.threads, a.share, [&](u64 item) {
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
