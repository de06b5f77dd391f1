// Slots of LL and LL128 as any operations before have left them.
#pragma once
#include "memory.h"

namespace simulator {

// Fill both halves of an arena: each word of a slot, and each line's flag, is of some epoch up to
// `last`, or was never written. Data may look like an epoch to come.
void fill_with_older(Memory& memory, u64 arena, u32 last, Random& random);

}  // namespace simulator
