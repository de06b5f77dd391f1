// Ranks as host threads: every thread of every block of every rank, kernel after kernel.
#pragma once
#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "ops.cuh"

namespace worldline {

// Call launch(rank, round) on each thread of each rank, `blocks` x `threads` of them; a rank's threads
// end a round together, as a kernel does. The launch says how many blocks it has: others sit it out.
template <class Launch>
void on_every_thread(int ranks, int rounds, int blocks, int threads, Launch launch) {
  auto rank = [&](int r) {
    std::barrier<> kernel_end(blocks * threads);
    // A block's own barrier and two one-way ones.
    std::vector<std::unique_ptr<std::barrier<>>> meets;
    for (int b = 0; b < 3 * blocks; ++b) meets.push_back(std::make_unique<std::barrier<>>(threads));
    std::vector<std::thread> all;
    for (int t = 0; t < blocks * threads; ++t)
      all.emplace_back([&, t] {
        place = {u32(t % threads), u32(threads), u32(t / threads), u32(blocks),
                 [](void* own, int number, bool waits) {
                   std::barrier<>& barrier = *static_cast<std::unique_ptr<std::barrier<>>*>(own)[number];
                   waits ? barrier.arrive_and_wait() : void(barrier.arrive());
                 },
                 &meets[3 * (t / threads)]};
        for (int round = 0; round < rounds; ++round) {
          launch(r, round);
          kernel_end.arrive_and_wait();
        }
      });
    for (std::thread& t : all) t.join();
  };
  std::vector<std::thread> all;
  for (int r = 0; r < ranks; ++r) all.emplace_back(rank, r);
  for (std::thread& r : all) r.join();
}

}  // namespace worldline
