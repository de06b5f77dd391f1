// Entry points of parts.cuh. RANK and WORLD come from the compiler's options.
// BATCH: zero where the launch has a thread for every item, else a thread's items of a pass.
#include "parts.cuh"

using namespace worldline;

template <int UNIT, bool SAME, int BATCH>
__global__ void ll_move(const __grid_constant__ Parts a) {
  exchange_parts<Ll, WL_RANK, WL_WORLD, UNIT, SAME, false, Numbers<FLOAT32, SUM>, BATCH>(a);
}

template <int UNIT, bool SAME, int BATCH>
__global__ void ll128_move(const __grid_constant__ Parts a) {
  exchange_parts<Ll128, WL_RANK, WL_WORLD, UNIT, SAME, false, Numbers<FLOAT32, SUM>, BATCH>(a);
}

template <int UNIT, bool SAME, int BATCH, int DTYPE, int OP>
__global__ void ll_reduce(const __grid_constant__ Parts a) {
  exchange_parts<Ll, WL_RANK, WL_WORLD, UNIT, SAME, true, Numbers<DTYPE, OP>, BATCH>(a);
}

template <int UNIT, bool SAME, int BATCH, int DTYPE, int OP>
__global__ void ll128_reduce(const __grid_constant__ Parts a) {
  exchange_parts<Ll128, WL_RANK, WL_WORLD, UNIT, SAME, true, Numbers<DTYPE, OP>, BATCH>(a);
}
