// Entry points of all_reduce.cuh. RANK and WORLD come from the compiler's options, and one module
// holds every width and form of a kernel for a dtype, so that nothing is loaded while kernels wait.
#include "all_reduce.cuh"

using namespace worldline;

template <int DTYPE, bool WIDE, bool LOOPS>
__global__ void ll_one_shot(const __grid_constant__ AllReduce a) {
  all_reduce_one_shot<Ll, WL_RANK, WL_WORLD, DTYPE, WIDE, LOOPS>(a);
}

template <int DTYPE, bool WIDE, bool LOOPS>
__global__ void ll_two_shot(const __grid_constant__ AllReduce a) {
  all_reduce_two_shot<Ll, WL_RANK, WL_WORLD, DTYPE, WIDE, LOOPS>(a);
}

template <int DTYPE, bool WIDE, bool LOOPS>
__global__ void sentinel_one_shot(const __grid_constant__ AllReduce a) {
  all_reduce_one_shot<Sentinel, WL_RANK, WL_WORLD, DTYPE, WIDE, LOOPS>(a);
}

template <int DTYPE, bool WIDE, bool LOOPS>
__global__ void sentinel_two_shot(const __grid_constant__ AllReduce a) {
  all_reduce_two_shot<Sentinel, WL_RANK, WL_WORLD, DTYPE, WIDE, LOOPS>(a);
}
