// What every rank's host does to recover a lane, in order: written down from primitives/lane.py
// itself (recovery.py).
#pragma once
#include "seam.h"

namespace simulator {

struct Step {
  enum Kind { drain, meet, clear, fill } kind;
  u64 offset = 0, words = 0;  // of a fill
  u32 value = 0;
};
extern const Step RECOVERY[];
extern const int RECOVERY_STEPS;

}  // namespace simulator
