// The hosts' part in a recovery: drain, meet, reset, meet.
#include "recovery.h"

#include "schedule.h"

namespace simulator {

// Until all kernels of a rank before this one have ended and no store of theirs is under way.
bool Schedule::drained(const Launch& recovery) const {
  if (in_order_[recovery.rank] < recovery.call) return false;
  return std::ranges::none_of(teams_, [&](const Team* team) {
    return team->rank == recovery.rank && team->part_of != nullptr;
  });
}

void Schedule::recover() {
  Thread& self = *current_;
  const Launch& launch = *self.launch;
  const u64 own = arena_base(launch.rank);
  u32 meetings = 0;
  auto wait = [&](std::function<bool()> until) {
    self.until = std::move(until);
    give_way();
    self.until = nullptr;
  };
  for (int i = 0; i < RECOVERY_STEPS; ++i) {
    const Step& step = RECOVERY[i];
    point();
    switch (step.kind) {
      case Step::drain:
        wait([&] { return drained(launch); });
        break;
      case Step::meet: {
        if (met_.size() == meetings) met_.push_back(0);
        const size_t meeting = meetings++;
        ++met_[meeting];
        wait([this, meeting] { return met_[meeting] == streams_.size(); });
        break;
      }
      case Step::clear:
      case Step::fill: {
        const u64 words = step.kind == Step::clear ? u64(ARENA_PLACES) : step.words;
        // The word by which kernels tell the host goes with the control words.
        if (step.offset == 0) {
          faults_.recovering(launch.rank);
          memory.overwrite(self.observer, launch.order.kernel.notice, 2, 0);
        }
        memory.overwrite(self.observer, own + step.offset, words, step.value);
      }
    }
  }
}

}  // namespace simulator
