// Entry points of litmus.cuh.
#include "litmus.cuh"

using namespace worldline;

template <bool REDUCED>
__global__ void litmus_lines(const __grid_constant__ Litmus a) {
  litmus<REDUCED>(a);
}
