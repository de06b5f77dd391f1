// A run that did what the protocol forbids.
#pragma once
#include <string>

namespace simulator {

struct Failure {
  std::string what;
};

// End the run from wherever it is; in a simulated thread, which no exception may leave, this never
// returns and the scheduler throws.
[[noreturn]] void fail(const std::string& what);

}  // namespace simulator
