// Entry points of all_reduce_ll.cuh. RANK and WORLD come from the compiler's options, and one
// module holds every dtype, width and form of a world, so that nothing is loaded while kernels wait.
#include "all_reduce_ll.cuh"

using namespace worldline;

template <int DTYPE, bool WIDE, bool LOOPS>
__global__ void one_shot(const __grid_constant__ AllReduce a) {
  all_reduce_ll_one_shot<WL_RANK, WL_WORLD, DTYPE, WIDE, LOOPS>(a);
}

template <int DTYPE, bool WIDE, bool LOOPS>
__global__ void two_shot(const __grid_constant__ AllReduce a) {
  all_reduce_ll_two_shot<WL_RANK, WL_WORLD, DTYPE, WIDE, LOOPS>(a);
}
