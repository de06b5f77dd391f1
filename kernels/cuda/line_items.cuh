// A caller's tensor as the data of lines: 120 bytes each, of which a thread has 16 and the last one 8.
#pragma once
#include "ll128.cuh"
#include "numbers.cuh"

namespace worldline {

// Items count from the thread's first, and are multiples of a line's threads. WIDE: the tensor starts
// on 8 bytes and is whole words of 8; else it is read element by element.
template <class NUMBERS, bool WIDE>
struct LineItems {
  static constexpr int WORDS = Ll128::WORDS, PER = 8 / NUMBERS::BYTES;  // elements in 8 bytes
  using Data = Words<WORDS>;

  char* const first;  // of the thread's first item
  const u64 left;     // elements from there on, or none
  const int eights;   // words of 8 bytes in an item

  WL_DEVICE LineItems(const void* tensor, u64 count, u32 thread)
      : first(static_cast<char*>(const_cast<void*>(tensor)) + start(thread)),
        left(count > start(thread) / 8 * PER ? count - start(thread) / 8 * PER : 0),
        eights(WORDS / 2 - holds_flag(thread)) {}

  WL_DEVICE static u64 start(u32 thread) {
    return u64(thread / LINE_LANES) * LINE_DATA + thread % LINE_LANES * Ll128::BYTES;
  }
  // What is to be worked out before the wait for the predecessor.
  WL_DEVICE u64 ready() const { return u64(first) | left | u64(eights); }

  WL_DEVICE Data load(u64 item) const {
    Data data{};
#pragma unroll
    for (int i = 0; i < WORDS / 2; ++i) {
      const u64 at = place(item, i);
      u64 eight = 0;
      if (WIDE) {
        if (here(i, at)) eight = *reinterpret_cast<const u64*>(first + at * (8 / PER));
      } else {
#pragma unroll
        for (int j = 0; j < PER; ++j)
          if (here(i, at + j)) eight |= u64(element(at + j)) << (64 / PER * j);
      }
      data.w[2 * i] = u32(eight);
      data.w[2 * i + 1] = u32(eight >> 32);
    }
    return data;
  }

  WL_DEVICE void store(u64 item, Data data) const {
#pragma unroll
    for (int i = 0; i < WORDS / 2; ++i) {
      const u64 at = place(item, i), eight = u64(data.w[2 * i + 1]) << 32 | data.w[2 * i];
      if (WIDE) {
        if (here(i, at)) *reinterpret_cast<u64*>(first + at * (8 / PER)) = eight;
      } else {
#pragma unroll
        for (int j = 0; j < PER; ++j)
          if (here(i, at + j)) element(at + j) = Element(eight >> (64 / PER * j));
      }
    }
  }

 private:
  using Element = typename NUMBERS::Element;

  // The element at which an item's i-th 8 bytes start.
  WL_DEVICE u64 place(u64 item, int i) const { return (item / LINE_LANES * (LINE_DATA / 8) + i) * PER; }
  WL_DEVICE bool here(int i, u64 at) const { return i < eights && at < left; }
  WL_DEVICE Element& element(u64 at) const { return reinterpret_cast<Element*>(first)[at]; }
};

// A thread's items of a launch, with its whole warp: as long as any of it has one. `active`: it has.
template <bool LOOPS, class Body>
WL_DEVICE void each_of_warp(u32 thread, u32 threads, u64 items, Body body) {
  const u32 warp = thread / WARP * WARP;
  if constexpr (LOOPS) {
#pragma unroll 1
    for (u64 item = 0; warp + item < items; item += threads) body(item, thread + item < items);
  } else {
    if (warp < items) body(u64(0), thread < items);
  }
}

}  // namespace worldline
