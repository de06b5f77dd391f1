// The numbers of the CUDA kernels on the host, for the tests to call: conversions, and reductions of
// every dtype and operation.
#include "reduce.cuh"
using namespace worldline;
extern "C" void widen(const u16* in, float* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = half_to_float(in[i]);
}
extern "C" void halves(const float* in, u32* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = floats_to_halves(in[2 * i], in[2 * i + 1]);
}
extern "C" void bfloats(const float* in, u32* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = floats_to_bfloats(in[2 * i], in[2 * i + 1]);
}
extern "C" void e4m3(const float* in, u8* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = u8(float_to_e4m3(in[i]));
}
extern "C" void e5m2(const float* in, u8* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = u8(float_to_e5m2(in[i]));
}
extern "C" void wide_e4m3(const u8* in, float* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = e4m3_to_float(in[i]);
}
extern "C" void wide_e5m2(const u8* in, float* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = e5m2_to_float(in[i]);
}

// Rank after rank, n words of 8 bytes each; as rank 1 of two or more.
template <int WORLD, int DTYPE, int OP>
void reduce(const Words<2>* in, Words<2>* out, int n, u64 scale) {
  constexpr int RANK = WORLD > 1;
  for (int i = 0; i < n; ++i)
    out[i] = in_rank_order<RANK, WORLD, Numbers<DTYPE, OP>>(
        in[RANK * n + i], scale, [&](int peer) { return in[peer * n + i]; });
}
template <int WORLD, int DTYPE, int... OPS>
void with_op(int op, const Words<2>* in, Words<2>* out, int n, u64 scale) {
  ((op == OPS ? reduce<WORLD, DTYPE, OPS>(in, out, n, scale) : void()), ...);
  if constexpr (Numbers<DTYPE, SUM>::FLOATS)
    if (op == SCALED_SUM) reduce<WORLD, DTYPE, SCALED_SUM>(in, out, n, scale);
}
template <int WORLD, int... DTYPES>
void with_dtype(int dtype, int op, const Words<2>* in, Words<2>* out, int n, u64 scale) {
  ((dtype == DTYPES ? with_op<WORLD, DTYPES, SUM, AVG, MIN, MAX, PROD>(op, in, out, n, scale)
                    : void()), ...);
}
template <int... WORLDS>
void with_world(int world, int dtype, int op, const Words<2>* in, Words<2>* out, int n, u64 scale) {
  ((world == WORLDS ? with_dtype<WORLDS, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9>(dtype, op, in, out, n, scale) : void()), ...);
}
extern "C" void all(int world, int dtype, int op, const Words<2>* in, Words<2>* out, int n, u64 scale) {
  with_world<1, 2, 3, 5, 8>(world, dtype, op, in, out, n, scale);
}
template <int... DTYPES>
void spoilt(int dtype, Words<2>* out) {
  ((dtype == DTYPES ? void(*out = spoilt_words<Numbers<DTYPES, SUM>, 2>()) : void()), ...);
}
extern "C" void spoil(int dtype, Words<2>* out) { spoilt<0, 1, 2, 3, 4, 5, 6, 7, 8, 9>(dtype, out); }
