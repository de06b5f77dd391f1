// A slot of every rank, reduced in rank order.
#pragma once
#include "numerics.cuh"

namespace worldline {

// `theirs(peer)` is a peer's data, `scale` that of the launch.
template <int RANK, int WORLD, class NUMBERS, int N, class Theirs>
WL_DEVICE Words<N> in_rank_order(Words<N> mine, u64 scale, Theirs theirs) {
  Values<NUMBERS, N> total;
#pragma unroll
  for (int rank = 0; rank < WORLD; ++rank) {
    const Words<N> data = rank == RANK ? mine : theirs(rank);
    if (rank == 0)
      total = unpack<NUMBERS>(data, scale);
    else
      accumulate(total, unpack<NUMBERS>(data, scale));
  }
  return pack<WORLD>(total);
}

}  // namespace worldline
