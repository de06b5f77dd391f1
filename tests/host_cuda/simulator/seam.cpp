// The seam on the simulator's side: each operation of the thread that runs is a chance to switch.
#include "seam.h"

#include "schedule.h"

namespace simulator {

static Observer& observer() { return Schedule::running->current().observer; }

static void check_race(u64 address, bool plain_store) {
  const Thread& thread = Schedule::running->current();
  thread.launch->races.check(place_of(address), thread.block, thread.index, thread.clock, plain_store);
}

u64 load(u64 address, int bytes) {
  Schedule::running->point();
  if (bytes == 4) check_race(address, false);
  return Schedule::running->memory.load(observer(), address, bytes);
}

// A thread that looks again sleeps until there is something new there, or wherever it looked since it
// paused before.
static void look_at(u64 first, u64 second) {
  Thread& thread = Schedule::running->current();
  const Seen here[] = {{place_of(first), 0}, {place_of(second), 0}};
  thread.looks.insert(thread.looks.end(), here, here + 2);
  if (!thread.paused) return;
  Schedule::running->sleep();
  thread.paused = false;
  thread.looks.assign(here, here + 2);
}

u32 load_acquire(u64 address) {
  look_at(address, address);
  return u32(load(address, 4));
}

void load_pair(u64 address, u64 values[2]) {
  look_at(address, address + 8);
  values[0] = load(address, 8);
  values[1] = load(address + 8, 8);
}

void load_line(u64 address, u64 words[16]) {
  const u64 last = address + u64(worldline::LINE) - 16;
  look_at(address, last);
  Schedule::running->point();
  Schedule::running->memory.load_line(observer(), address, words);
}

void store_line(u64 address, const u64 words[16]) {
  Schedule::running->point();
  Schedule::running->memory.store_line(observer(), address, words);
}

void add_line(u64 address, const u64 words[16]) {
  Schedule::running->point();
  Schedule::running->memory.add_line(observer(), address, words);
}

void store(u64 address, int bytes, u64 value) {
  Schedule::running->point();
  Schedule::running->memory.store(observer(), address, bytes, value);
}

void store_plain(u64 address, int bytes, u64 value) {
  Schedule::running->point();
  check_race(address, true);
  Schedule::running->memory.store(observer(), address, bytes, value);
}

void store_release(u64 address, int bytes, u64 value) {
  Schedule::running->point();
  Schedule::running->memory.store_release(observer(), address, bytes, value);
}

u64 exchange(u64 address, int bytes, u64 value) {
  Schedule::running->point();
  check_race(address, false);
  return Schedule::running->memory.exchange(observer(), address, bytes, value);
}

void fence() {
  Schedule::running->point();
  Schedule::running->memory.fence(observer());
}

void barrier() { Schedule::running->meet(0, true); }

void arrive_at(int barrier) {
  Schedule::running->point();
  Schedule::running->meet(barrier, false);
}

void wait_at(int barrier) {
  Schedule::running->point();
  Schedule::running->meet(barrier, true);
}

void pause() {
  Schedule::running->current().paused = true;
}

u64 clock_ns() { return Schedule::running->clock_ns(); }

void wait_for_predecessor() {
  Schedule::running->current().for_predecessor = true;
  Schedule::running->give_way();
}

void launch_successor() { Schedule::running->let_successor(); }

Place place() {
  const Thread& thread = Schedule::running->current();
  const Order& order = thread.launch->order;
  return {thread.index, order.threads, thread.block, order.grid};
}

}  // namespace simulator
