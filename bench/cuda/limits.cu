// Entry points of limits.cuh.
#include "limits.cuh"

using namespace worldline;

template <int STEP>
__global__ void step(const __grid_constant__ Limits a) {
  limits<STEP>(a);
}
