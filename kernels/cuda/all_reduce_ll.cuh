// All-reduce over LL slots in CUDA: twin of all_reduce_ll.py, same slots, same bits.
//
// A thread has one item of 8 bytes where there are enough threads, and loops otherwise. With one
// item the input is read once, before the epoch is known, and stays in registers.
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
  u64 half;
  u32 launch_point;  // 0: the successor may start after the wait; 1: after the stores
};

// One launch as one thread sees it. RANK and WORLD are constants: ranks are added in order without
// a look-up.
template <int RANK, int WORLD, int SHOTS>
struct Exchange {
  const AllReduce& a;
  const u32 epoch;
  bool alive;

  WL_DEVICE u64 stride() const { return a.half / SLOT / SHOTS / WORLD; }
  WL_DEVICE u64 index(int shot, int source, u64 item) const {
    return u64(shot * WORLD + source) * stride() + item;
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

template <int RANK, int WORLD, int DTYPE, bool WIDE>
WL_DEVICE void all_reduce_ll_one_shot(const AllReduce& a) {
  wait_for_predecessor();
  if (a.launch_point == 0) launch_successor();
  const u32 thread = block_index() * block_threads() + thread_index();
  const u32 threads = grid_blocks() * block_threads();
  const u64 items = (a.count + PER_ITEM<DTYPE> - 1) / PER_ITEM<DTYPE>;
  const u64 own = a.lane.base[RANK];
  Words mine{0, 0};
  if (thread < items) mine = load_item<DTYPE, WIDE>(a.source, thread, a.count);
  const u32 epoch = begin_epoch(own, block_index());
  const bool entered_alive = lane_alive(own);
  Exchange<RANK, WORLD, 1> exchange{a, epoch, entered_alive};
  clear_before_wrap(own, epoch, thread, threads, a.half);

  if (thread < items) exchange.send_to_all(0, thread, mine);
  for (u64 item = u64(thread) + threads; item < items; item += threads)
    exchange.send_to_all(0, item, load_item<DTYPE, WIDE>(a.source, item, a.count));
  const u32 found = enter_lane(own);
  if (a.launch_point == 1) launch_successor();

  for (u64 item = thread; item < items; item += threads) {
    if (item != thread) mine = load_item<DTYPE, WIDE>(a.source, item, a.count);
    const Words sum = exchange.template reduce<DTYPE>(0, item, mine);
    store_item<DTYPE, WIDE>(a.target, item, a.count, exchange.alive ? sum : nan_words<DTYPE>());
  }
  end_epoch(own, epoch);
  leave_lane(a.lane, own, found, entered_alive);
}

// Rank r owns items [r * share, (r + 1) * share). A block whose first item a share does not hold
// exchanges that slot all the same, as a token.
template <int RANK, int WORLD, int DTYPE, bool WIDE>
WL_DEVICE void all_reduce_ll_two_shot(const AllReduce& a) {
  wait_for_predecessor();
  if (a.launch_point == 0) launch_successor();
  const u32 thread = block_index() * block_threads() + thread_index();
  const u32 threads = grid_blocks() * block_threads();
  const u64 items = (a.count + PER_ITEM<DTYPE> - 1) / PER_ITEM<DTYPE>;
  const u64 share = (items + WORLD - 1) / WORLD;
  const u64 own = a.lane.base[RANK];
  const u32 epoch = begin_epoch(own, block_index());
  const bool entered_alive = lane_alive(own);
  Exchange<RANK, WORLD, 2> exchange{a, epoch, entered_alive};
  clear_before_wrap(own, epoch, thread, threads, a.half);
  auto holds = [&](int owner, u64 item) { return owner * share + item < items && item < share; };
  auto exchanged = [&](int owner, u64 item) {
    return holds(owner, item) || (thread_index() == 0 && item == thread);
  };
  auto load = [&](int owner, u64 item) {
    return holds(owner, item) ? load_item<DTYPE, WIDE>(a.source, owner * share + item, a.count) : Words{0, 0};
  };
  auto store = [&](int owner, u64 item, Words w) {
    if (holds(owner, item))
      store_item<DTYPE, WIDE>(a.target, owner * share + item, a.count, exchange.alive ? w : nan_words<DTYPE>());
  };

  for (u64 item = thread; item < share; item += threads) {
#pragma unroll
    for (int step = 1; step < WORLD; ++step) {
      const int owner = (RANK + step) % WORLD;
      if (exchanged(owner, item)) exchange.send(owner, 0, item, load(owner, item));
    }
  }
  const u32 found = enter_lane(own);
  for (u64 item = thread; item < share; item += threads) {
    if (!exchanged(RANK, item)) continue;
    const Words sum = exchange.template reduce<DTYPE>(0, item, load(RANK, item));
    exchange.send_to_all(1, item, sum);
    store(RANK, item, sum);
  }
  if (a.launch_point == 1) launch_successor();
  for (u64 item = thread; item < share; item += threads) {
    Pair first[WORLD];
#pragma unroll
    for (int owner = 0; owner < WORLD; ++owner)
      if (owner != RANK && exchanged(owner, item)) first[owner] = exchange.look(owner, 1, item);
#pragma unroll
    for (int owner = 0; owner < WORLD; ++owner)
      if (owner != RANK && exchanged(owner, item)) store(owner, item, exchange.receive(owner, 1, item, first[owner]));
  }
  end_epoch(own, epoch);
  leave_lane(a.lane, own, found, entered_alive);
}

}  // namespace worldline
