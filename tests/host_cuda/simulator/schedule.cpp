#include "schedule.h"

#include <algorithm>

namespace simulator {

constexpr u64 MOST_STEPS = 1'000'000, MOST_LEAPS = 10'000;
Schedule* Schedule::running = nullptr;

void fail(const std::string& what) {
  if (Schedule::running == nullptr) throw Failure{what};
  Schedule::running->fail(what);
}

static std::string name_of(const Thread& thread) {
  return "rank " + std::to_string(thread.launch->rank) + " call " +
         std::to_string(thread.launch->call) + " block " + std::to_string(thread.block) +
         " thread " + std::to_string(thread.index);
}

// Whether its kernel has ended and no store of it is under way.
static bool settled(const Team* team) { return team->part_of && team->buffer.empty(); }

static void learn(Clock& clock, const Clock& more) {
  for (size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], more[i]);
}

static void entry() {
  Schedule& schedule = *Schedule::running;
  const Order& order = schedule.current().launch->order;
  if (order.recovers)
    schedule.recover();
  else
    run(order.kernel);
  schedule.current().ended = true;
  schedule.give_way();
}

Schedule::Schedule(Memory& memory, Random& random, std::vector<std::vector<Order>> streams,
                   std::function<void(const Launch&)> ended, Faults faults)
    : memory(memory),
      random_(random),
      streams_(std::move(streams)),
      ended_(std::move(ended)),
      faults_(std::move(faults)),
      pasts_(streams_.size(), Past{std::vector<u32>(memory.places()), {}}),
      nothing_(pasts_[0]),
      launches_(streams_.size()),
      in_order_(streams_.size()) {
  // Characters differ by seed: who is slow, how often threads switch, how long stores linger.
  const bool slow_at_home = random.chance(0.5);
  for (size_t rank = 0; rank < streams_.size(); ++rank) {
    rank_pace_.push_back(random.choice({1.0, 0.1, 0.003}));
    link_pace_.emplace_back();
    for (int arena = 0; arena < memory.arenas(); ++arena)
      link_pace_[rank].push_back(slow_at_home ? (arena == int(rank) ? 0.001 : 1.0)
                                              : random.choice({1.0, 0.001}));
  }
  switch_ = random.choice({0.1, 0.5, 0.9});
  drain_ = random.choice({0.02, 0.2, 0.6});
  patience_ = random.choice({0.5, 0.9});
  if (const int slow = faults_.naps.rank(); slow >= 0) {
    rank_pace_[slow] /= 100;
    for (double& pace : link_pace_[slow]) pace /= 100;
  }
}

void Schedule::run() {
  running = this;
  start_what_may();
  while (failure_.empty() && !(threads_.empty() && teams_.empty())) step();
  running = nullptr;
  if (!failure_.empty()) throw Failure{failure_};
}

void Schedule::fail(const std::string& what) {
  if (current_ == nullptr) {
    running = nullptr;
    throw Failure{what};
  }
  failure_ = name_of(*current_) + ": " + what;
  for (;;) give_way();
}

void Schedule::point() {
  ++steps;
  const bool nap = faults_.naps.come(current_->launch->rank, current_->launch->call, clock_ns());
  if (random_.chance(switch_) || nap) give_way();
}

// The last thread of the block to arrive lets go on those that wait there.
void Schedule::meet(int barrier, bool waits) {
  Thread& self = *current_;
  Block& block = *self.launch->blocks[self.block];
  Meeting& meeting = block.meetings[barrier];
  if (std::ranges::count(meeting.arrived, &self)) fail("a thread comes to a barrier twice before all have come");
  meeting.arrived.push_back(&self);
  self.at_barrier = waits ? barrier : -1;
  ++self.clock[self.index];
  meeting.clock.resize(self.clock.size());
  learn(meeting.clock, self.clock);
  if (barrier != 0) memory.arrive(self.observer, meeting.arrivals);
  if (meeting.arrived.size() == block.members.size()) {
    if (barrier == 0) memory.barrier(block.team, block.members);
    for (Thread* thread : meeting.arrived) {
      if (thread->at_barrier != barrier) continue;
      memory.go_on(thread->observer, meeting.arrivals);
      learn(thread->clock, meeting.clock);
      thread->at_barrier = -1;
    }
    meeting = {};
  }
  while (self.at_barrier >= 0) give_way();
}

void Schedule::sleep() {
  const Observer& observer = current_->observer;
  for (Seen& look : current_->looks) look.until = memory.floor(observer, look.place);
  current_->asleep = true;
  give_way();
}

void Schedule::let_successor() {
  if (current_->let_successor) return;
  current_->let_successor = true;
  ++current_->launch->lets_successor;
}

bool Schedule::may_start(int rank, u32 call) const {
  if (faults_.unordered && rank > 0 && call == 0)
    for (const Thread* thread : threads_)
      if (ready(*thread)) return false;
  for (u32 before = 0; before < streams_[rank][call].after; ++before) {
    const Launch& launch = *launches_[rank][before];
    if (launch.lets_successor < launch.threads.size()) return false;
  }
  return true;
}

// A kernel may start once each thread of its predecessors has let it or ended: dependent launch.
void Schedule::start_what_may() {
  for (int rank = 0; rank < int(streams_.size()); ++rank)
    while (launches_[rank].size() < streams_[rank].size() &&
           may_start(rank, u32(launches_[rank].size())))
      start(rank, u32(launches_[rank].size()));
}

void Schedule::start(int rank, u32 call) {
  const Order& order = streams_[rank][call];
  auto launch = std::make_unique<Launch>(order, rank, call);
  for (u32 index = 0; index < order.grid; ++index) {
    auto block = std::make_unique<Block>();
    block->team.rank = rank;
    block->team.call = int(call);
    // A kernel sees as done what its predecessors did, and nothing of one that it overlaps.
    block->team.before = order.after == call ? &pasts_[rank] : &nothing_;
    block->team.under_way.resize(size_t(memory.arenas()));
    block->team.waiting.resize(size_t(memory.arenas()));
    const double pace = rank_pace_[rank] * random_.choice({1.0, 1.0, 0.01});
    for (u32 i = 0; i < order.threads; ++i) {
      auto thread = std::make_unique<Thread>();
      thread->observer.team = &block->team;
      thread->clock.resize(order.threads);
      thread->launch = launch.get();
      thread->block = index;
      thread->index = i;
      thread->pace = pace * random_.choice({1.0, 1.0, 0.1});
      thread->fiber.start(entry);
      block->members.push_back(&thread->observer);
      threads_.push_back(thread.get());
      launch->threads.push_back(std::move(thread));
    }
    teams_.push_back(&block->team);
    launch->blocks.push_back(std::move(block));
  }
  launches_[rank].push_back(std::move(launch));
}

bool Schedule::ready(const Thread& thread) const {
  if (thread.at_barrier >= 0 || naps(thread.launch->rank)) return false;
  if (thread.until) return thread.until();
  if (thread.for_predecessor) return in_order_[thread.launch->rank] >= thread.launch->order.after;
  if (!thread.asleep) return true;
  return std::any_of(thread.looks.begin(), thread.looks.end(), [&](const Seen& look) {
    return memory.newer(thread.observer, look.place, look.until);
  });
}

void Schedule::step() {
  ready_.clear();
  busy_.clear();
  links_.clear();
  for (Thread* thread : threads_)
    if (ready(*thread)) {
      ready_.push_back(thread);
      if (!thread->asleep) busy_.push_back(thread);
    }
  for (Team* team : teams_)
    for (int arena = 0; arena < memory.arenas(); ++arena)
      if (team->waiting[arena] > 0 && !naps(team->rank))
        links_.push_back({link_pace_[team->rank][arena], team, arena});
  if (steps > MOST_STEPS) fail("no end after " + std::to_string(steps) + " steps");
  // As long as nothing has changed, just choose again.
  while (!links_.empty() && (ready_.empty() || random_.chance(busy_.empty() ? patience_ : drain_)))
    if (drain_some(ready_.empty())) return;
  if (!busy_.empty() && random_.chance(patience_))
    go_on(choose(busy_));
  else if (!ready_.empty())
    go_on(choose(ready_));
  else
    idle();
}

// Let stores to one arena become visible, if its link is not too slow: each has a pace of its own.
bool Schedule::drain_some(bool hurry) {
  double total = 0;
  for (const Link& link : links_) total += link.pace;
  double at = random_.part() * total;
  size_t index = 0;
  while (index + 1 < links_.size() && (at -= links_[index].pace) >= 0) ++index;
  const Link& link = links_[index];
  if (!hurry && !random_.chance(link.pace)) return false;
  const u32 waiting = link.team->waiting[link.arena];
  const u32 count = random_.choice({1u, waiting / 4 + 1, waiting});
  const bool any = memory.drain(*link.team, link.arena, count, random_.chance(0.5));
  if (settled(link.team)) std::erase(teams_, link.team);
  return any;
}

// Nobody can run and no store is under way.
void Schedule::idle() {
  const u64 now = clock_ns(), until = faults_.naps.until();
  bool goes_on = faults_.unordered || faults_.in_vain || now < until;
  for (size_t rank = 0; rank < streams_.size(); ++rank)
    goes_on |= memory.newest(arena_base(int(rank)) + worldline::DEAD, 8) != 0;
  if (!goes_on || ++leaps_ > MOST_LEAPS)
    fail("hang: no store is under way and all wait: " + who_waits());
  // While a rank naps the others look at the clock many times before they may be late.
  leapt_ns_ += now < until ? std::min(until - now, LIMIT_NS / 64) : 2 * LIMIT_NS;
  // Threads that wait on a dead lane look at its word, or the clock, only after so many polls.
  for (Thread* thread : threads_) thread->asleep = false;
}

Thread& Schedule::choose(const std::vector<Thread*>& from) {
  if (random_.below(64) == 0) frozen_ = from[random_.below(from.size())];
  double total = 0;
  for (const Thread* thread : from)
    if (thread != frozen_ || from.size() == 1) total += thread->pace;
  double at = random_.part() * total;
  Thread* chosen = from[0];
  for (Thread* thread : from) {
    if (thread == frozen_ && from.size() > 1) continue;
    chosen = thread;
    if ((at -= thread->pace) < 0) break;
  }
  return *chosen;
}

void Schedule::go_on(Thread& thread) {
  thread.asleep = thread.for_predecessor = false;
  current_ = &thread;
  thread.fiber.enter();
  if (thread.ended && !thread.let_successor) let_successor();
  current_ = nullptr;
  if (failure_.empty() && thread.ended) {
    std::erase(threads_, &thread);
    if (++thread.launch->ended == thread.launch->threads.size()) end(*thread.launch);
  }
  if (failure_.empty()) start_what_may();
}

void Schedule::end(Launch& launch) {
  for (auto& thread : launch.threads) thread->fiber.stop();
  auto& launches = launches_[launch.rank];
  u32& in_order = in_order_[launch.rank];
  while (in_order < launches.size() &&
         launches[in_order]->ended == launches[in_order]->threads.size())
    for (auto& block : launches[in_order++]->blocks)
      memory.finish(block->team, block->members, pasts_[launch.rank]);
  std::erase_if(teams_, settled);
  ended_(launch);
}

std::string Schedule::who_waits() const {
  std::string names;
  for (const Thread* thread : threads_) names += (names.empty() ? "" : "; ") + name_of(*thread);
  return names;
}

}  // namespace simulator
