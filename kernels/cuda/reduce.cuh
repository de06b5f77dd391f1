// A slot of every rank, added in rank order.
#pragma once
#include "numerics.cuh"

namespace worldline {

// `theirs(peer)` is a peer's data.
template <int RANK, int WORLD, int DTYPE, int N, class Theirs>
WL_DEVICE Words<N> in_rank_order(Words<N> mine, Theirs theirs) {
  Values<DTYPE, N> total;
#pragma unroll
  for (int rank = 0; rank < WORLD; ++rank) {
    const Words<N> data = rank == RANK ? mine : theirs(rank);
    if (rank == 0)
      total = unpack<DTYPE>(data);
    else
      accumulate(total, unpack<DTYPE>(data));
  }
  return pack<WORLD>(total);
}

}  // namespace worldline
