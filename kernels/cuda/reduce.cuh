// A slot of every rank, added in rank order.
#pragma once
#include "numerics.cuh"

namespace worldline {

// `look(peer)` is a first look at a peer's slot, and all of them come first; `receive(peer, first)`
// waits for its data.
template <int RANK, int WORLD, int DTYPE, int N, class Look, class Receive>
WL_DEVICE Words<N> in_rank_order(Words<N> mine, Look look, Receive receive) {
  decltype(look(0)) first[WORLD];
#pragma unroll
  for (int rank = 0; rank < WORLD; ++rank)
    if (rank != RANK) first[rank] = look(rank);
  Values<DTYPE, N> total;
#pragma unroll
  for (int rank = 0; rank < WORLD; ++rank) {
    const Words<N> data = rank == RANK ? mine : receive(rank, first[rank]);
    if (rank == 0)
      total = unpack<DTYPE>(data);
    else
      accumulate(total, unpack<DTYPE>(data));
  }
  return pack<WORLD>(total);
}

}  // namespace worldline
