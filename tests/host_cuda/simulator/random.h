// The one source of chance. Its own, as the standard distributions differ between libraries.
#pragma once
#include <cstdint>
#include <initializer_list>

namespace simulator {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}

  // SplitMix64.
  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  double part() { return double(bits() >> 11) * 0x1p-53; }
  bool chance(double likely) { return part() < likely; }
  std::uint64_t below(std::uint64_t end) { return bits() % end; }
  int between(int first, int last) { return first + int(below(std::uint64_t(last - first + 1))); }

  template <class T>
  T choice(std::initializer_list<T> of) {
    return of.begin()[below(of.size())];
  }

 private:
  std::uint64_t state_;
};

}  // namespace simulator
