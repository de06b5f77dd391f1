// What the kernels and the simulator know of each other. No standard header: the kernels are
// compiled anew for each planted bug, and this keeps that short.
#pragma once

namespace simulator {

using u32 = unsigned int;
using u64 = unsigned long long;

// Arenas are not in this process's memory: an address names a rank and an offset, and following it
// as a pointer faults. Behind the ranks' arenas comes one for the hosts' own words.
constexpr int ARENA_BITS = 40;
constexpr u64 arena_base(int arena) { return u64(arena + 1) << ARENA_BITS; }

// Operations of the thread that runs, in order of issue.
u64 load(u64 address, int bytes);
u32 load_acquire(u64 address);
void load_pair(u64 address, u64 values[2]);
void load_line(u64 address, u64 words[16]);
void store_line(u64 address, const u64 words[16]);
void add_line(u64 address, const u64 words[16]);
void store(u64 address, int bytes, u64 value);
void store_plain(u64 address, int bytes, u64 value);
void store_release(u64 address, int bytes, u64 value);
u64 exchange(u64 address, int bytes, u64 value);
void fence();
void barrier();
void arrive_at(int barrier);
void wait_at(int barrier);
void pause();
u64 clock_ns();
void wait_for_predecessor();
void launch_successor();

struct Place {
  u32 thread, threads, block, blocks;
};
Place place();

enum class Protocol { ll, ll128, ll128_atomic, sentinel };

// One launch's arguments; `run` is one thread of it.
struct Kernel {
  u64 base[16];
  u64 limit_ns, notice;
  int rank, world, operation, shots;
  Protocol protocol;
  const void* source;
  void* target;
  u64 count, region, buffer, stride, sums, sum_stage;
  u32 launch_point;
  bool wide;
};
void run(const Kernel& kernel);
extern const int MOST_RANKS;  // of a world whose kernels are compiled in

constexpr u64 BATCH = 2;  // of a sentinel kernel whose threads take several items

}  // namespace simulator
