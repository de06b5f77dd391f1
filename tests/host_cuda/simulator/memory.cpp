#include "memory.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "failure.h"

namespace simulator {

using worldline::LL;

u32 place_of(u64 address) {
  const u64 arena = (address >> ARENA_BITS) - 1, offset = address & ((u64(1) << ARENA_BITS) - 1);
  if (offset % 4 != 0 || offset >= ARENA_BYTES) fail("an access outside the arenas or astray");
  return u32(arena * ARENA_PLACES + offset / 4);
}

bool Fence::open() {
  while (passed < before.size() && before[passed]->visible) ++passed;
  return passed == before.size();
}

Memory::Memory(int arenas, Random& random)
    : arenas_(arenas),
      random_(random),
      freshness_(random.choice({0.3, 0.7, 1.0})),
      initial_(places()),
      histories_(places()) {}

void Memory::fill(u64 address, int bytes, u64 value) {
  const u32 place = place_of(address);
  initial_[place] = u32(value);
  if (bytes == 8) initial_[place + 1] = u32(value >> 32);
}

u64 Memory::newest(u64 address, int bytes) const {
  const u32 place = place_of(address);
  if (!histories_[place].empty()) return histories_[place].back().bits;
  return bytes == 4 ? initial_[place] : u64(initial_[place + 1]) << 32 | initial_[place];
}

void Memory::overwrite(Observer& who, u64 address, u64 words, u32 value) {
  for (u64 at = address; at < address + 4 * words; at += 4) {
    const u32 place = place_of(at), offset = offset_of(place);
    const bool counter = offset >= u32(worldline::EPOCHS) && offset < u32(LL);
    initial_[place] = value;
    if (!histories_[place].empty()) append(who, place, counter ? value : u64(value) << 32 | value);
  }
}

std::vector<Memory::Value>& Memory::history(u32 place, int bytes) {
  std::vector<Value>& values = histories_[place];
  if (values.empty()) {
    const u64 high = bytes == 8 ? initial_[place + 1] : 0;
    values.push_back({high << 32 | initial_[place], -1, -1});
  }
  return values;
}

u32 Memory::floor(const Observer& who, u32 place) const {
  u32 lowest = who.team->before->floors[place];
  const Floors &block = who.team->known, &own = who.known;
  if (const auto found = block.find(place); found != block.end())
    lowest = std::max(lowest, found->second);
  if (const auto found = own.find(place); found != own.end())
    lowest = std::max(lowest, found->second);
  return lowest;
}

bool Memory::newer(const Observer& who, u32 place, u32 floor) const {
  return histories_[place].size() > floor + 1 && !pending_for(who, place);
}

// The last store to a place that the thread sees before it is visible to all.
const Pending* Memory::pending_for(const Observer& who, u32 place) const {
  const auto& buffer = who.team->buffer;
  if (const auto found = buffer.find(place); found != buffer.end())
    for (auto pending = found->second.rbegin(); pending != found->second.rend(); ++pending)
      if (knows(who, *pending)) return pending->get();
  return who.team->before->last(place).get();
}

bool Memory::knows(const Observer& who, const std::shared_ptr<Pending>& pending) {
  return pending->by == &who || pending->covered || std::ranges::count(who.learned, pending) > 0;
}

u64 Memory::load(Observer& who, u64 address, int bytes) {
  const u32 place = place_of(address);
  Team& team = *who.team;
  if (const Pending* pending = pending_for(who, place)) {
    if (pending->adds) fail("a load of a line that this rank adds to");
    return pending->value;
  }
  const std::vector<Value>& values = history(place, bytes);
  const u32 last = u32(values.size() - 1);
  if (last == 0) return values[0].bits;
  const u32 first = floor(who, place);
  u32 index = last;
  if (first < last && !random_.chance(freshness_))
    index = first + u32(random_.below(last - first + 1));
  if (index > first) who.known[place] = index;
  const Value& value = values[index];
  if (offset_of(place) >= u32(LL) && value.call == team.call && value.rank != team.rank)
    team.heard |= 1u << value.rank;
  return value.bits;
}

void Memory::store(Observer& who, u64 address, int bytes, u64 value) {
  enqueue(who, address, bytes, value, who.fence);
}

void Memory::store_release(Observer& who, u64 address, int bytes, u64 value) {
  enqueue(who, address, bytes, value, fence_before(who));
}

u64 Memory::number_of(const u64 words[16]) {
  lines_.emplace_back(words, words + 16);
  return lines_.size() - 1;
}

void Memory::put_line(Observer& who, u64 address, const u64 words[16], bool adds) {
  const u64 number = number_of(words);
  for (u64 piece = 0; piece < (lines_in_pieces ? 8 : 1); ++piece)
    enqueue(who, address + 16 * piece, 8, number, who.fence, adds);
}

void Memory::store_line(Observer& who, u64 address, const u64 words[16]) { put_line(who, address, words, false); }

void Memory::add_line(Observer& who, u64 address, const u64 words[16]) { put_line(who, address, words, true); }

// As a GPU adds: every NaN is the same.
static u64 sum_of_floats(u64 a, u64 b) {
  const float sum = std::bit_cast<float>(u32(a)) + std::bit_cast<float>(u32(b));
  return sum == sum ? std::bit_cast<u32>(sum) : 0x7fffffffu;
}

u64 Memory::sum_of_lines(u64 first, u64 second) {
  u64 words[16];
  for (int i = 0; i < 16; ++i) {
    const u64 a = lines_[first][size_t(i)], b = lines_[second][size_t(i)];
    words[i] = sum_of_floats(a >> 32, b >> 32) << 32 | sum_of_floats(a, b);
  }
  return number_of(words);
}

void Memory::load_line(Observer& who, u64 address, u64 words[16]) {
  u64 number = 0;
  for (u64 piece = 0; piece < 8; ++piece) {
    if (piece == 0 || lines_in_pieces) number = load(who, address + 16 * piece, 8);
    for (u64 word = 2 * piece; word < 2 * piece + 2; ++word) words[word] = lines_[number][word];
  }
}

u64 Memory::exchange(Observer& who, u64 address, int bytes, u64 value) {
  const u32 place = place_of(address);
  Team& team = *who.team;
  if (who.fence) force(*who.fence);
  if (const auto last = who.team->before->last(place)) force(*last);
  while (team.buffer.contains(place)) {
    const std::shared_ptr<Pending> own = team.buffer[place].back();
    force(*own);
  }
  const u64 old = history(place, bytes).back().bits;
  append(who, place, value);
  return old;
}

void Memory::fence(Observer& who) { who.fence = fence_before(who); }

void Memory::arrive(const Observer& who, Arrivals& arrivals) const {
  for (const auto& [place, index] : who.known) {
    u32& floor = arrivals.known[place];
    floor = std::max(floor, index);
  }
  const Stores stores = everything_before(who);
  arrivals.stores.insert(arrivals.stores.end(), stores.begin(), stores.end());
}

void Memory::go_on(Observer& who, const Arrivals& arrivals) const {
  for (const auto& [place, index] : arrivals.known) {
    u32& floor = who.known[place];
    floor = std::max(floor, index);
  }
  for (const auto& pending : arrivals.stores)
    if (!pending->visible) who.learned.push_back(pending);
}

void Memory::barrier(Team& team, const std::vector<Observer*>& members) {
  for (auto& [place, stores] : team.buffer)
    for (auto& pending : stores) pending->covered = true;
  for (Observer* member : members) {
    for (const auto& [place, index] : member->known) {
      u32& floor = team.known[place];
      floor = std::max(floor, index);
    }
    member->known.clear();
  }
}

bool Memory::drain(Team& team, int arena, u32 count, bool of_one_thread) {
  auto& list = team.under_way[arena];
  std::erase_if(list, [](const auto& pending) { return pending->visible; });
  bool any = false;
  for (size_t tried = 0; tried < list.size() && count > 0; ++tried) {
    std::swap(list[tried], list[tried + random_.below(list.size() - tried)]);
    const auto& pending = list[tried];
    if (pending->visible || (of_one_thread && pending->by != list[0]->by)) continue;
    --count;
    const auto& oldest = team.buffer[pending->place].front();
    if (!oldest->may_become_visible()) continue;
    make_visible(team, pending->place);
    any = true;
  }
  return any;
}

void Memory::finish(Team& team, const std::vector<Observer*>& members, Past& past) {
  barrier(team, members);
  for (const auto& [place, index] : team.known)
    past.floors[place] = std::max(past.floors[place], index);
  // Later kernels must agree on an order even where blocks or overlapping kernels had none.
  for (auto& [place, stores] : team.buffer)
    stores.front()->behind = std::exchange(past.left[place], stores.back());
  team.part_of = &past;
}

Stores Memory::everything_before(const Observer& who) {
  Stores before;
  for (const auto& [place, stores] : who.team->buffer)
    for (const auto& pending : stores)
      if (pending->by == &who || pending->covered) before.push_back(pending);
  for (const auto& [place, pending] : who.team->before->left) before.push_back(pending);
  for (const auto& pending : who.learned)
    if (!pending->visible) before.push_back(pending);
  return before;
}

std::shared_ptr<Fence> Memory::fence_before(const Observer& who) {
  auto fence = std::make_shared<Fence>();
  fence->before = everything_before(who);
  return fence;
}

void Memory::enqueue(Observer& who, u64 address, int bytes, u64 value,
                     std::shared_ptr<Fence> after, bool adds) {
  const u32 place = place_of(address);
  Team& team = *who.team;
  if (arena_of(place) != team.rank && offset_of(place) >= u32(worldline::TOKENS) && to_peers_++ == lost) return;
  history(place, bytes);
  auto pending = std::make_shared<Pending>(
      Pending{&who, place, value, std::move(after), team.before->last(place), adds});
  team.buffer[place].push_back(pending);
  team.under_way[arena_of(place)].push_back(pending);
  ++team.waiting[arena_of(place)];
  if (offset_of(place) >= u32(LL)) team.sent |= 1u << arena_of(place);
}

void Memory::force(Fence& fence) {
  while (!fence.open()) force(*fence.before[fence.passed]);
}

void Memory::force(const Pending& wanted) {
  while (!wanted.visible) {
    Team& team = *wanted.by->team;
    const std::shared_ptr<Pending> oldest = team.buffer[wanted.place].front();
    if (oldest->after) force(*oldest->after);
    if (oldest->behind) force(*oldest->behind);
    make_visible(team, wanted.place);
  }
}

void Memory::make_visible(Team& team, u32 place) {
  auto& stores = team.buffer[place];
  const std::shared_ptr<Pending> pending = stores.front();
  stores.pop_front();
  if (stores.empty()) team.buffer.erase(place);
  --team.waiting[arena_of(place)];
  pending->visible = true;
  pending->after.reset();
  pending->behind.reset();
  const u64 held = pending->adds ? histories_[place].back().bits : 0;
  append(*pending->by, place, pending->adds ? sum_of_lines(held, pending->value) : pending->value);
  const u32 index = pending->by->known[place];
  if (pending->covered) team.known[place] = index;
  if (!team.part_of) return;
  team.part_of->floors[place] = index;
  if (team.part_of->last(place) == pending) team.part_of->left.erase(place);
}

void Memory::append(Observer& who, u32 place, u64 value) {
  std::vector<Value>& values = histories_[place];
  values.push_back({value, who.team->rank, who.team->call});
  who.known[place] = u32(values.size() - 1);
}

}  // namespace simulator
