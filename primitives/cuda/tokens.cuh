// Tokens: a peer may fill again what a block of this rank has emptied; twin of signals.py.
//
// Block b of a rank tells block b of every peer, and waits for what those told it. A token that
// follows a fence covers what every thread of the block stored before, by the block's barrier, and
// what every block stored in kernels before, by their end. Its acquire, and a barrier or the kernel's
// end, hold for every thread that stores next.
#pragma once
#include "deadline.cuh"

namespace worldline {

constexpr u32 TOKEN_STEP = 4;  // from one pass's to the next's

// Whether a block that needs no token of its own tells one all the same: an old one must not fall so
// far behind that it would look like one to come.
WL_DEVICE bool token_is_due(u32 count) { return count / TOKEN_STEP % TOKEN_REFRESH == 0; }

WL_DEVICE u32* token_word(u64 arena, int source) {
  return reinterpret_cast<u32*>(arena + TOKENS) + block_index() * MAX_WORLD + source;
}

// Helper h of so many serves peers h, h + helpers, ...
template <int RANK, int WORLD, class Body>
WL_DEVICE void each_peer(u32 helper, u32 helpers, Body body) {
#pragma unroll 1
  for (u32 peer = helper; peer < WORLD; peer += helpers)
    if (peer != RANK) body(int(peer));
}

template <int RANK, int WORLD>
WL_DEVICE void send_tokens(const Lane& lane, u32 token, u32 helper, u32 helpers) {
  each_peer<RANK, WORLD>(helper, helpers, [&](int peer) { store_u32(token_word(lane.base[peer], RANK), token); });
}

// Wait until the token from a peer is not before `token`; false if the wait failed.
WL_DEVICE bool wait_token(const Lane& lane, const u32* word, u32 token, int peer) {
  Patience patience;
#pragma unroll 1
  for (u32 rounds = 1;; ++rounds) {
    const u32 seen = load_acquire_u32(word);
    if (int(seen - token) >= 0) return true;
    pause();
    if (rounds % SPINS != 0) continue;
    if (!patience.more(lane, token / TOKEN_STEP, peer, block_index(), seen / TOKEN_STEP)) return false;
  }
}

// Returns false if a wait failed.
template <int RANK, int WORLD>
WL_DEVICE bool wait_tokens(const Lane& lane, u32 token, u32 helper, u32 helpers) {
  bool come = true;
  each_peer<RANK, WORLD>(helper, helpers, [&](int peer) {
    if (come) come = wait_token(lane, token_word(lane.base[RANK], peer), token, peer);
  });
  return come;
}

}  // namespace worldline
