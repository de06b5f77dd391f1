// Tokens: a peer may fill again what this rank emptied an operation ago; twin of signals.py.
//
// The thread's release covers what every thread of the kernels before has stored, for their ends came
// before it; its acquire holds for every thread of the kernels to come.
#pragma once
#include "deadline.cuh"

namespace worldline {

WL_DEVICE u32* token_word(u64 arena, int source) { return reinterpret_cast<u32*>(arena + TOKENS) + source; }

// Wait until the token from a peer is not before `token`; false if the wait failed.
WL_DEVICE bool wait_token(const Lane& lane, const u32* word, u32 token, int peer) {
  Patience patience;
#pragma unroll 1
  for (u32 rounds = 1;; ++rounds) {
    const u32 seen = load_acquire_u32(word);
    if (int(seen - token) >= 0) return true;
    pause();
    if (rounds % SPINS != 0) continue;
    if (!patience.more(lane, token, peer, MAX_BLOCKS, seen)) return false;
  }
}

// Send `token` to every peer and wait for those that they sent in the operation before, `STEP` less:
// helper h of so many serves peers h, h + helpers, ... Returns false if a wait failed.
template <int RANK, int WORLD>
WL_DEVICE bool exchange_tokens(const Lane& lane, u32 token, u32 helper, u32 helpers) {
  constexpr u32 STEP = 4;
#pragma unroll 1
  for (u32 peer = helper; peer < WORLD; peer += helpers)
    if (peer != RANK) store_release_u32(token_word(lane.base[peer], RANK), token);
#pragma unroll 1
  for (u32 peer = helper; peer < WORLD; peer += helpers)
    if (peer != RANK && !wait_token(lane, token_word(lane.base[RANK], int(peer)), token - STEP, int(peer))) return false;
  return true;
}

}  // namespace worldline
