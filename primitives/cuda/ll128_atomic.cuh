// LL128-atomic: lines of sums, to which peers add, and a tally that rides along; no barrier.
//
// The first shot of a two-shot over LL128. In place of a line of its own each peer has the owner's:
// it adds its data there, by one reduction of the eight threads of a line, 16 bytes each, and so the
// owner looks at one line, whatever the number of ranks. The second shot is LL128's.
//
// Sums are floats. A word of data adds its number to the line of plane 0, or its two halves each to one
// of planes 0 and 1, at the word's own place. Where LL128 has its flag each line has its tally, two
// floats: what the numbers 1 << rank of those that have added make, and how many they are. A line is
// complete when both are all peers'; till then they tell who is missing. The owner adds its own data in
// registers, rounds once, and sends the sum.
//
//     byte   0              16                   112      120      128
//            | sums, thread 0 | ... | sums, thread 7 | ranks, count |
//
// As of LL128, nothing else proves it: a reduction has to become visible as a whole. Kernels of this
// protocol are offered only where litmus.cuh has looked for torn ones, too.
//
// Numbers: in the order of arrival, which differs from run to run from three ranks on. All ranks get
// the owner's bits. A sum of -0 may be +0, and subnormal floats may be taken for zero.
//
// Who writes what: peers add to a stage, the owner zeroes. There are three stages, and launch k of this
// protocol uses stage k mod 3 (counters.cuh). Its count is no other operation's: were it LL's epoch,
// what comes in between would skip a stage, or use one twice.
//
// Why reuse is safe without a barrier: the owner zeroes a line as soon as it has read it complete, in
// launch k, and peers add to it again in k + 3. A peer begins k + 2 after it has received a result of
// the owner's launch k + 1 in k + 1, as each block does of each owner; and what the owner sends in k + 1
// it sends after the end of its k. So when a peer adds in k + 2 or later, all that the owner did in k is
// past, as far as instructions go.
//
// Memory order, for that promises a peer nothing yet: each thread fences once in a launch, between what
// it adds and the first result that it sends. The owner's fence in k + 1 has its zeroes of k, which the
// kernel's end made visible to all its threads, precede the results that it sends then. The peer's fence
// in k + 2 has those results, received in k + 1, precede what it adds in k + 3: for this there is a third
// stage, a fence in front of the additions would be in the way. Where it is, it passes while the peers'
// additions are on their way. (A peer ends its launch when all results are there: one sender's fence
// would do for all. But then only some of the lines would have a reason.)
//
// A launch that fails leaves sums behind. The lane is dead then, and its recovery zeroes them.
#pragma once
#include "ll128.cuh"
#include "numerics.cuh"

namespace worldline {

// What one rank adds to a tally, and what all but one have made of it.
WL_DEVICE u64 tally(float ranks, float count) { return u64(float_to_bits(count)) << 32 | float_to_bits(ranks); }
WL_DEVICE u64 tally_of(int rank) { return tally(float(1 << rank), 1); }
WL_DEVICE u64 tally_but(int rank, int world) { return tally(float((1 << world) - 1 - (1 << rank)), float(world - 1)); }

// A peer that has not added yet.
template <int RANK, int WORLD>
WL_DEVICE int missing(u64 tally) {
  const u32 come = u32(bits_to_float(u32(tally)));
  for (int step = 1; step < WORLD - 1; ++step)
    if ((come >> (RANK + step) % WORLD & 1) == 0) return (RANK + step) % WORLD;
  return (RANK + WORLD - 1) % WORLD;
}

// The sums of one launch, as kernels take them.
template <int RANK, int WORLD, class NUMBERS>
struct Sums {
  static constexpr int WORDS = Ll128::WORDS, PLANES = PER_ITEM<NUMBERS, 1>;

  const u64 stage;  // in bytes
  u32 turn = 0;

  WL_DEVICE explicit Sums(u64 stage) : stage(stage) {}
  WL_DEVICE void begin(u32 last) { turn = stage_after(last); }
  // A line by its place in the first stage's first plane.
  WL_DEVICE char* line(u64 first, int plane) const {
    return reinterpret_cast<char*>(first + (turn & 3) * stage + plane * (stage / 2));
  }

  WL_DEVICE void add_to(u64 first, Words<WORDS> data, bool active) const {
    const Values<NUMBERS, WORDS> values = unpack<NUMBERS>(data);
#pragma unroll
    for (int plane = 0; plane < PLANES; ++plane) {
      Part part;
#pragma unroll
      for (int i = 0; i < WORDS / 2; ++i)
        part.v[i] = u64(float_to_bits(values.v[(2 * i + 1) * PLANES + plane])) << 32 |
                    float_to_bits(values.v[2 * i * PLANES + plane]);
      if (holds_flag(thread_index())) part.v[WORDS / 2 - 1] = tally_of(RANK);
      warp_meets();
      if (active) add_part(line(first, plane), part);
    }
  }

  // Wait for all peers' additions and add them to `mine`; returns false if the wait failed.
  WL_DEVICE bool collect(u64 first, Words<WORDS>& mine, const Lane& lane, u32 epoch, u32 index, bool active) const {
    Part seen[PLANES];
    const auto slot = [&](int plane) WL_INLINE { return line(first, plane); };
#pragma unroll
    for (int plane = 0; plane < PLANES; ++plane) {
      warp_meets();
      seen[plane] = active ? load_part(slot(plane)) : Part{};
    }
    const u32 looks = active & holds_flag(thread_index());
    const bool come = poll_lines(
        seen, [&](int) WL_INLINE { return active; },
        [&](int plane) WL_INLINE { return looks & u32(flag_of(seen[plane]) != tally_but(RANK, WORLD)); }, slot,
        [&](int plane) WL_INLINE { return Awaited{missing<RANK, WORLD>(flag_of(seen[plane])), index}; },
        [](int) WL_INLINE { return ~u32(0); }, epoch, lane);
    Values<NUMBERS, WORDS> total = unpack<NUMBERS>(mine);
#pragma unroll
    for (int plane = 0; plane < PLANES; ++plane) {
#pragma unroll
      for (int i = 0; i < WORDS; ++i) {
        float& value = total.v[i * PLANES + plane];
        value = add(value, bits_to_float(u32(seen[plane].v[i / 2] >> 32 * (i % 2))));
      }
    }
    mine = pack<WORLD>(total);
    return come;
  }

  WL_DEVICE void empty(u64 first, bool active) const {
#pragma unroll
    for (int plane = 0; plane < PLANES; ++plane)
      if (active) store_part(line(first, plane), Part{});
  }
};

}  // namespace worldline
