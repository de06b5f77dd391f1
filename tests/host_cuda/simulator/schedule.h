// Streams of kernels on fibers: every rank x block x thread is one, a seed orders them all.
//
// Threads give way at their memory operations; in between, stores become visible. A thread that
// looks again at a slot sleeps until there is something that it has not seen there, so a hang is
// found exactly: nobody can run and no store is under way, not even one of a kernel that has ended.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fiber.h"
#include "memory.h"
#include "naps.h"
#include "races.h"

namespace simulator {

// One kernel on a rank's stream.
struct Order {
  Kernel kernel;
  u32 grid, threads;
  u32 after;  // how many kernels before it on the stream its predecessors are
  bool recovers = false;  // not a kernel: its one thread is the host's, which recovers the lane
};

struct Launch;

struct Seen {
  u32 place, until;  // how far it has been seen
};

struct Thread {
  Observer observer;
  Launch* launch;
  u32 block, index;
  double pace;
  Fiber fiber;
  Clock clock;
  int at_barrier = -1;  // the one it waits at
  bool for_predecessor = false, paused = false, asleep = false;
  bool let_successor = false, ended = false;
  std::vector<Seen> looks;  // where it has looked since it paused last: there it waits while it is asleep
  std::function<bool()> until;  // what a host waits for
};

// One of a block's barriers: number 0 is the whole block's, at the others some threads only arrive.
struct Meeting {
  std::vector<Thread*> arrived;
  Arrivals arrivals;
  Clock clock;
};

struct Block {
  Team team;
  Meeting meetings[3];
  std::vector<Observer*> members;
};

struct Launch {
  Launch(const Order& order, int rank, u32 call) : order(order), rank(rank), call(call) {}

  const Order& order;
  int rank;
  u32 call;
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<std::unique_ptr<Thread>> threads;
  u32 lets_successor = 0, ended = 0;
  Races races;
};

// What is out of the ordinary in a run.
struct Faults {
  bool unordered = false;  // rank 0's peers start once all its threads wait for them
  bool in_vain = false;    // a wait in vain runs into its deadline instead of being a hang; so it does if unordered
  Naps naps;
  std::function<void(int)> recovering;  // sees each rank before it clears its arena
};

class Schedule {
 public:
  // Run all streams to their ends, and until all stores are visible. `ended` sees each launch as it
  // ends.
  Schedule(Memory& memory, Random& random, std::vector<std::vector<Order>> streams,
           std::function<void(const Launch&)> ended, Faults faults);
  void run();

  // For the thread that runs.
  Thread& current() { return *current_; }
  void point();
  void give_way() { current_->fiber.leave(); }
  void meet(int barrier, bool waits);
  void sleep();
  void let_successor();
  void recover();
  u64 clock_ns() const { return (u64(1) << 40) + leapt_ns_ + steps * 1000; }
  [[noreturn]] void fail(const std::string& what);

  static Schedule* running;
  static constexpr u64 LIMIT_NS = u64(1) << 40;  // of a wait: far more than all steps take
  Memory& memory;
  u64 steps = 0;

 private:
  struct Link {
    double pace;
    Team* team;
    int arena;
  };
  void start_what_may();
  bool may_start(int rank, u32 call) const;
  void start(int rank, u32 call);
  bool ready(const Thread& thread) const;
  void step();
  bool drain_some(bool hurry);
  void idle();
  Thread& choose(const std::vector<Thread*>& from);
  void go_on(Thread& thread);
  void end(Launch& launch);
  bool drained(const Launch& recovery) const;
  bool naps(int rank) const { return faults_.naps.asleep(rank, clock_ns()); }
  std::string who_waits() const;

  Random& random_;
  std::vector<std::vector<Order>> streams_;
  std::function<void(const Launch&)> ended_;
  Faults faults_;
  std::vector<Past> pasts_;  // by rank: of its kernels from the first on that have ended
  const Past nothing_;       // of a kernel without predecessors
  std::vector<std::vector<std::unique_ptr<Launch>>> launches_;
  std::vector<u32> in_order_;  // by rank: how many kernels from the first on have ended
  std::vector<Thread*> threads_, ready_, busy_;
  std::vector<Team*> teams_;  // also of ended kernels, until their stores are visible
  std::vector<Link> links_;
  std::vector<double> rank_pace_;
  std::vector<std::vector<double>> link_pace_;
  double switch_, drain_, patience_;
  Thread* current_ = nullptr;
  Thread* frozen_ = nullptr;
  u64 leaps_ = 0, leapt_ns_ = 0;
  std::vector<size_t> met_;  // by meeting of a recovery: how many ranks have come
  std::string failure_;
};

}  // namespace simulator
