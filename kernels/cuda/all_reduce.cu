// Entry points of the all-reduces. RANK and WORLD come from the compiler's options, and one module
// holds every width and form of a kernel for a dtype and operation, so that nothing is loaded while
// kernels wait.
// BATCH: zero where the launch has a thread for every item, else a thread's items of a pass.
#include "all_reduce_ll.cuh"
#include "all_reduce_ll128.cuh"
#include "all_reduce_ll128_atomic.cuh"
#include "all_reduce_sentinel.cuh"

using namespace worldline;

template <int DTYPE, int OP, bool WIDE, int BATCH>
__global__ void ll_one_shot(const __grid_constant__ AllReduce a) {
  all_reduce_ll_one_shot<WL_RANK, WL_WORLD, Numbers<DTYPE, OP>, WIDE, (BATCH > 0)>(a);
}

template <int DTYPE, int OP, bool WIDE, int BATCH>
__global__ void ll_two_shot(const __grid_constant__ AllReduce a) {
  all_reduce_ll_two_shot<WL_RANK, WL_WORLD, Numbers<DTYPE, OP>, WIDE, (BATCH > 0)>(a);
}

template <int DTYPE, int OP, bool WIDE, int BATCH>
__global__ void ll128_one_shot(const __grid_constant__ AllReduce a) {
  all_reduce_ll128_one_shot<WL_RANK, WL_WORLD, Numbers<DTYPE, OP>, WIDE, (BATCH > 0)>(a);
}

template <int DTYPE, int OP, bool WIDE, int BATCH>
__global__ void ll128_two_shot(const __grid_constant__ AllReduce a) {
  all_reduce_ll128_two_shot<WL_RANK, WL_WORLD, Numbers<DTYPE, OP>, WIDE, (BATCH > 0)>(a);
}

template <int DTYPE, int OP, bool WIDE, int BATCH>
__global__ void ll128_atomic(const __grid_constant__ AllReduce a) {
  all_reduce_ll128_atomic<WL_RANK, WL_WORLD, Numbers<DTYPE, OP>, WIDE, (BATCH > 0)>(a);
}

template <int DTYPE, int OP, bool WIDE, int BATCH>
__global__ void sentinel_one_shot(const __grid_constant__ AllReduce a) {
  all_reduce_sentinel_one_shot<WL_RANK, WL_WORLD, Numbers<DTYPE, OP>, WIDE, BATCH>(a);
}

template <int DTYPE, int OP, bool WIDE, int BATCH>
__global__ void sentinel_two_shot(const __grid_constant__ AllReduce a) {
  all_reduce_sentinel_two_shot<WL_RANK, WL_WORLD, Numbers<DTYPE, OP>, WIDE, BATCH>(a);
}
