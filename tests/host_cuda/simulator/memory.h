// The arenas' memory as a GPU may show it: delayed stores, stale loads, fences, block barriers.
//
// Every location keeps all the values that it ever held, in coherence order. A thread knows a
// *floor* per location, the oldest of these that it may still read; a load returns any value from
// the floor on and raises the floor. Stores wait with their block and become visible in any order,
// those to one location in theirs. A fence holds a thread's later stores back until those before
// it are visible: its own, and those of other threads that a block barrier has *covered*.
//
// A kernel's end orders its stores for the later kernels of its rank alone, which see them as done.
// It promises peers nothing: what is under way stays so. A fence of a later kernel covers it,
// and later stores to the same location come after it.
//
// A line of 128 bytes is a value of its own: it becomes visible, and is read, as a whole. Where
// `lines_in_pieces` says so its 16-byte pieces are. What is added to a line is a store whose value
// is the sum with what the line holds when it becomes visible.
//
// A fence teaches a reader nothing about other locations, which is weaker than the hardware's: the
// kernels learn by flags that lie in the data's own words, by block barriers and by kernels' ends.
#pragma once
#include <algorithm>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "arena.h"
#include "random.h"

namespace simulator {

// A location: a 4-byte place in all the arenas, one after another.
u32 place_of(u64 address);
inline int arena_of(u32 place) { return int(place / ARENA_PLACES); }
inline u32 offset_of(u32 place) { return place % ARENA_PLACES * 4; }

using Floors = std::unordered_map<u32, u32>;
struct Observer;
struct Pending;
using Stores = std::vector<std::shared_ptr<Pending>>;

struct Fence {
  std::vector<std::shared_ptr<Pending>> before;
  size_t passed = 0;
  bool open();
};

// A store that not all see yet.
struct Pending {
  Observer* by;  // outlives its kernel
  u32 place;
  u64 value;
  std::shared_ptr<Fence> after;
  std::shared_ptr<Pending> behind;  // the last store of ended kernels to this place
  bool adds = false, covered = false, visible = false;
  bool may_become_visible() const {
    return (!after || after->open()) && (!behind || behind->visible);
  }
};

// What the ended kernels of a rank have done, for those after them.
struct Past {
  std::vector<u32> floors;
  std::unordered_map<u32, std::shared_ptr<Pending>> left;  // to each place the last one under way
  std::shared_ptr<Pending> last(u32 place) const {
    const auto found = left.find(place);
    return found == left.end() ? nullptr : found->second;
  }
};

// What the threads of a block share.
struct Team {
  int rank, call;
  const Past* before;
  Past* part_of = nullptr;  // from the kernel's end on
  Floors known;             // floors since the last block barrier
  std::unordered_map<u32, std::list<std::shared_ptr<Pending>>> buffer;
  std::vector<std::vector<std::shared_ptr<Pending>>> under_way;  // by arena
  std::vector<u32> waiting;                                      // how many of them, by arena
  u32 sent = 0, heard = 0;  // ranks to and from which LL slots of this call went, as bits
};

struct Observer {
  Team* team;
  Floors known;
  Stores learned;  // others' stores that were before what it does next
  std::shared_ptr<Fence> fence;
};

// What threads that have arrived at a one-way barrier tell those that wait there.
struct Arrivals {
  Floors known;
  Stores stores;
};

class Memory {
 public:
  Memory(int arenas, Random& random);

  // Before the first load.
  void fill(u64 address, int bytes, u64 value);
  // The newest visible value.
  u64 newest(u64 address, int bytes) const;
  // The host's fill: at once, whatever is under way; `value` in every word.
  void overwrite(Observer& who, u64 address, u64 words, u32 value);

  u64 load(Observer& who, u64 address, int bytes);
  void store(Observer& who, u64 address, int bytes, u64 value);
  void store_release(Observer& who, u64 address, int bytes, u64 value);
  void store_line(Observer& who, u64 address, const u64 words[16]);
  // Adds the floats that the words hold.
  void add_line(Observer& who, u64 address, const u64 words[16]);
  void load_line(Observer& who, u64 address, u64 words[16]);
  // A number that stands for a line's words, or for a piece's in the piece's place.
  u64 number_of(const u64 words[16]);
  const std::vector<u64>& line(u64 number) const { return lines_[number]; }
  u64 exchange(Observer& who, u64 address, int bytes, u64 value);
  void fence(Observer& who);
  void barrier(Team& team, const std::vector<Observer*>& members);
  void arrive(const Observer& who, Arrivals& arrivals) const;
  void go_on(Observer& who, const Arrivals& arrivals) const;

  // Let up to `count` of a block's stores under way to an arena become visible, in any order: of
  // all its threads or of one. Returns false if all of those it tried wait for others.
  bool drain(Team& team, int arena, u32 count, bool of_one_thread);
  // The kernel's end: what it did becomes part of its rank's past.
  void finish(Team& team, const std::vector<Observer*>& members, Past& past);

  // The oldest value that a thread may still read, as an index into the place's history.
  u32 floor(const Observer& who, u32 place) const;
  // Whether it could load a newer one than that.
  bool newer(const Observer& who, u32 place, u32 floor) const;
  bool lines_in_pieces = false;
  u64 lost = ~u64(0);  // which one of the stores of slots and tokens to peers gets lost
  int arenas() const { return arenas_; }
  u32 places() const { return u32(arenas_) * ARENA_PLACES; }

 private:
  struct Value {
    u64 bits;
    int rank, call;
  };
  const Pending* pending_for(const Observer& who, u32 place) const;
  std::vector<Value>& history(u32 place, int bytes);
  void enqueue(Observer& who, u64 address, int bytes, u64 value, std::shared_ptr<Fence> after, bool adds = false);
  void put_line(Observer& who, u64 address, const u64 words[16], bool adds);
  u64 sum_of_lines(u64 first, u64 second);
  void force(Fence& fence);
  void force(const Pending& wanted);
  void make_visible(Team& team, u32 place);
  void append(Observer& who, u32 place, u64 value);
  static bool knows(const Observer& who, const std::shared_ptr<Pending>& pending);
  static Stores everything_before(const Observer& who);
  static std::shared_ptr<Fence> fence_before(const Observer& who);

  int arenas_;
  u64 to_peers_ = 0;
  Random& random_;
  double freshness_;
  std::vector<u32> initial_;
  std::vector<std::vector<Value>> histories_;
  std::vector<std::vector<u64>> lines_{std::vector<u64>(16)};  // by number; the first is empty
};

}  // namespace simulator
