// A part of a tensor as threads' items, byte for byte: 8 bytes over LL; over LL128 the data of lines of
// 120 bytes, of which a thread has 16 and the last one 8.
#pragma once
#include "ll.cuh"
#include "ll128.cuh"
#include "vectors.cuh"

namespace worldline {

// UNIT: bytes of an access, which divide every part's place and length.
template <class PROTOCOL, int UNIT>
struct PartItems {
  static constexpr int WORDS = PROTOCOL::WORDS, PER = 8 / UNIT;
  using Data = Words<WORDS>;
  using Element = typename Choose<UNIT == 8, u64, typename Choose<UNIT == 4, u32, typename Choose<UNIT == 2, u16, unsigned char>::Type>::Type>::Type;

  const u32 thread;

  // Where a thread's item starts in a part; items are counted from the launch's first.
  WL_DEVICE u64 start(u64 item) const {
    if constexpr (WORDS == 2) return item * ITEM;
    return item / LINE_LANES * LINE_DATA + thread % LINE_LANES * PROTOCOL::BYTES;
  }
  WL_DEVICE int eights() const { return WORDS == 2 ? 1 : WORDS / 2 - holds_flag(thread); }

  // `at`: the item's start; of a part of so many bytes.
  WL_DEVICE Data load(const void* part, u64 at, u64 bytes) const {
    Data data{};
#pragma unroll
    for (int i = 0; i < WORDS / 2; ++i) {
      u64 eight = 0;
#pragma unroll
      for (int j = 0; j < PER; ++j)
        if (here(i, at + 8 * i + UNIT * j, bytes)) eight |= u64(element(part, at + 8 * i + UNIT * j)) << (8 * UNIT * j % 64);
      data.w[2 * i] = u32(eight);
      data.w[2 * i + 1] = u32(eight >> 32);
    }
    return data;
  }
  WL_DEVICE void store(void* part, u64 at, u64 bytes, Data data) const {
#pragma unroll
    for (int i = 0; i < WORDS / 2; ++i) {
      const u64 eight = u64(data.w[2 * i + 1]) << 32 | data.w[2 * i];
#pragma unroll
      for (int j = 0; j < PER; ++j)
        if (here(i, at + 8 * i + UNIT * j, bytes)) element(part, at + 8 * i + UNIT * j) = Element(eight >> (8 * UNIT * j % 64));
    }
  }

 private:
  WL_DEVICE bool here(int i, u64 at, u64 bytes) const { return i < eights() && at < bytes; }
  WL_DEVICE static Element& element(const void* part, u64 at) {
    return *reinterpret_cast<Element*>(static_cast<char*>(const_cast<void*>(part)) + at);
  }
};

}  // namespace worldline
