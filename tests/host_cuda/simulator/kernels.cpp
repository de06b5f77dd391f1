// The real kernels, for worlds of 2 and 3: the only unit that sees the headers under test.
#include "all_reduce_ll.cuh"

using namespace worldline;

template <int RANK, int WORLD, bool WIDE, bool LOOPS>
void with_form(const AllReduce& a, int shots) {
  if (shots == 1)
    all_reduce_ll_one_shot<RANK, WORLD, FLOAT32, WIDE, LOOPS>(a);
  else
    all_reduce_ll_two_shot<RANK, WORLD, FLOAT32, WIDE, LOOPS>(a);
}

// The form without loops where there is a thread for every item, as the launcher does.
template <int RANK, int WORLD, bool WIDE>
void with_width(const AllReduce& a, int shots) {
  if ((shots == 1 ? a.items : a.share) > u64(grid_blocks()) * block_threads())
    with_form<RANK, WORLD, WIDE, true>(a, shots);
  else
    with_form<RANK, WORLD, WIDE, false>(a, shots);
}

template <int RANK, int WORLD>
void as_rank(const AllReduce& a, const simulator::Kernel& kernel) {
  if (kernel.rank != RANK || kernel.world != WORLD) return;
  if (kernel.wide)
    with_width<RANK, WORLD, true>(a, kernel.shots);
  else
    with_width<RANK, WORLD, false>(a, kernel.shots);
}

void simulator::run(const Kernel& kernel) {
  AllReduce a{};
  for (int rank = 0; rank < kernel.world; ++rank) a.lane.base[rank] = kernel.base[rank];
  a.lane.limit_ns = kernel.limit_ns;
  a.lane.notice = kernel.notice;
  a.lane.rank = kernel.rank;
  a.lane.world = kernel.world;
  a.lane.operation = kernel.operation;
  a.source = kernel.source;
  a.target = kernel.target;
  a.count = kernel.count;
  a.items = (kernel.count + PER_ITEM<FLOAT32> - 1) / PER_ITEM<FLOAT32>;
  a.share = (a.items + kernel.world - 1) / kernel.world;
  a.half = kernel.half;
  a.stride = kernel.half / SLOT / kernel.shots / kernel.world;
  a.launch_point = kernel.launch_point;
  as_rank<0, 2>(a, kernel);
  as_rank<1, 2>(a, kernel);
  as_rank<0, 3>(a, kernel);
  as_rank<1, 3>(a, kernel);
  as_rank<2, 3>(a, kernel);
}
