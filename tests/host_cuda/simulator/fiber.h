// One simulated thread's stack and place of execution.
#pragma once
#include <ucontext.h>

#include <memory>

namespace simulator {

class Fiber {
 public:
  static constexpr size_t STACK_BYTES = 1 << 16;

  // `entry` must not return.
  void start(void (*entry)()) {
    stack_ = std::make_unique_for_overwrite<char[]>(STACK_BYTES);
    getcontext(&inside_);
    inside_.uc_stack.ss_sp = stack_.get();
    inside_.uc_stack.ss_size = STACK_BYTES;
    makecontext(&inside_, entry, 0);
  }
  // Go on where it left.
  void enter() { swapcontext(&outside_, &inside_); }
  void stop() { stack_.reset(); }
  // From inside: let whoever entered go on.
  void leave() { swapcontext(&inside_, &outside_); }

 private:
  ucontext_t inside_, outside_;
  std::unique_ptr<char[]> stack_;
};

}  // namespace simulator
