// The real kernels, for worlds of 2 and 3, and with FOUR for 4: the only unit that sees the headers
// under test.
#include "../over.h"

using namespace worldline;

// The form without loops where there is a thread for every item, as the launcher does.
template <class OVER, int RANK, int WORLD, bool WIDE>
void with_width(const AllReduce& a, int shots) {
  if ((shots == 1 ? a.items : a.share) > u64(grid_blocks()) * (block_threads() - OVER::HELPERS))
    OVER::template run<RANK, WORLD, WIDE, true>(a, shots);
  else
    OVER::template run<RANK, WORLD, WIDE, false>(a, shots);
}

template <class OVER, int RANK, int WORLD>
void as_rank(AllReduce& a, const simulator::Kernel& kernel) {
  if (kernel.rank != RANK || kernel.world != WORLD) return;
  constexpr int PER = OVER::FLOATS;
  a.items = (kernel.count + PER - 1) / PER;
  a.share = (a.items + kernel.world - 1) / kernel.world;
  if (kernel.wide && kernel.count % OVER::UNIT == 0)
    with_width<OVER, RANK, WORLD, true>(a, kernel.shots);
  else
    with_width<OVER, RANK, WORLD, false>(a, kernel.shots);
}

template <class OVER>
void over(AllReduce& a, const simulator::Kernel& kernel) {
  as_rank<OVER, 0, 2>(a, kernel);
  as_rank<OVER, 1, 2>(a, kernel);
  as_rank<OVER, 0, 3>(a, kernel);
  as_rank<OVER, 1, 3>(a, kernel);
  as_rank<OVER, 2, 3>(a, kernel);
#ifdef FOUR
  as_rank<OVER, 0, 4>(a, kernel);
  as_rank<OVER, 1, 4>(a, kernel);
  as_rank<OVER, 2, 4>(a, kernel);
  as_rank<OVER, 3, 4>(a, kernel);
#endif
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
  a.region = kernel.region;
  a.buffer = kernel.buffer;
  a.stride = kernel.stride;
  a.sums = kernel.sums;
  a.sum_stage = kernel.sum_stage;
  a.launch_point = kernel.launch_point;
  if (kernel.protocol == Protocol::sentinel)
    over<OverSentinel<int(BATCH)>>(a, kernel);
  else if (kernel.protocol == Protocol::ll128)
    over<OverLl128>(a, kernel);
  else if (kernel.protocol == Protocol::ll128_atomic)
    over<OverLl128Atomic>(a, kernel);
  else
    over<OverLl>(a, kernel);
}

#ifdef FOUR
const int simulator::MOST_RANKS = 4;
#else
const int simulator::MOST_RANKS = 3;
#endif
