"""Defects of kernels whose threads share slots: lines of 128 bytes, and what is added to them."""

from __future__ import annotations

from tests.compile_only.cuda_builds import Module
from tests.compile_only.cuda_plants import TWO_STORES, CudaPlant

LINES = ("ll128_one_shot", 0, True, 0)
SUMS = ("ll128_atomic", 1, True, 0)
MORE_LINES = ("ll128_two_shot", 2, False, 1)

_ADDS = 'asm volatile("red.relaxed.sys.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p),'
_FOUR_ADDS = _ADDS.replace(
    "red.relaxed.sys.global.add.v4.f32 [%0], {%1, %2, %3, %4};",
    "".join(f"red.relaxed.sys.global.add.f32 [%0+{4 * i}], %{i + 1};" for i in range(4)),
)
_POLL = "if (active(i)) seen[i] = load_part(slot(i));"

LINE_PLANTS = {
    "a part of a line in two stores": CudaPlant(
        "slots_take_one_access",
        "ops.cuh",
        "{ store_pair(p, Pair{v.v[0], v.v[1]}); }",
        f'{{ asm volatile("{TWO_STORES}" ::"l"(p), "l"(v.v[0]), "l"(v.v[1]) : "memory"); }}',
        kernel=LINES,
    ),
    "a part of a line in a weak load": CudaPlant(
        "slots_take_one_access",
        "ops.cuh",
        "const Pair v = load_pair(p);\n  return {v.first, v.second};",
        """Part v;
  asm volatile("ld.global.v2.b64 {%0, %1}, [%2];" : "=l"(v.v[0]), "=l"(v.v[1]) : "l"(p) : "memory");
  return v;""",
        kernel=LINES,
    ),
    "a line in a wait that looks once": CudaPlant(
        "waiting_loops_look_again", "ll128.cuh", _POLL, ";", kernel=LINES
    ),
    "looks at lines that no vote is on": CudaPlant(
        "warps_vote_on_what_they_see",
        "ops.cuh",
        "return __all_sync(0xffffffffu, x);",
        "return x;",
        kernel=LINES,
    ),
    "a verdict that no vote is on": CudaPlant(
        "warps_vote_on_what_they_see",
        "ll128.cuh",
        "if (!warp_all(!late)) return false;",
        "if (late) return false;",
        kernel=MORE_LINES,
        module=Module(120, 3, 1),
    ),
    "threads that leave a wait on their own": CudaPlant(
        "lines_stay_whole",
        "ll128.cuh",
        "if (!warp_all(!late)) return false;",
        "if (late) return false;",
        kernel=LINES,
    ),
    "a poll by the flag's thread alone": CudaPlant(
        "lines_stay_whole",
        "ll128.cuh",
        _POLL,
        _POLL.replace("active(i)", "active(i) & holds_flag(thread_index())"),
        kernel=LINES,
    ),
    "a flag that is not polled again": CudaPlant(
        "lines_stay_whole",
        "ll128.cuh",
        _POLL,
        _POLL.replace("active(i)", "active(i) & !holds_flag(thread_index())"),
        kernel=MORE_LINES,
        module=Module(80, 2, 1),
    ),
    "a poll for what has not arrived": CudaPlant(
        "lines_stay_whole",
        "ll128.cuh",
        _POLL,
        _POLL.replace("active(i)", "missing(i)"),
        kernel=MORE_LINES,
        module=Module(100, 2, 1),
    ),
    "a send without a meeting": CudaPlant(
        "warps_meet_before_lines",
        "ll128.cuh",
        "    warp_meets();\n    if (active) store_part",
        "    if (active) store_part",
        kernel=LINES,
        module=Module(89, 8, 1),
    ),
    "a first look without a meeting": CudaPlant(
        "warps_meet_before_lines",
        "ll128.cuh",
        "    warp_meets();\n    return wanted ?",
        "    return wanted ?",
        kernel=LINES,
        module=Module(120, 3, 1),
    ),
    "a flag's thread that takes its neighbour's data": CudaPlant(
        "the_flags_thread_has_half_an_item",
        "line_items.cuh",
        "eights(WORDS / 2 - holds_flag(thread))",
        "eights(WORDS / 2)",
        kernel=LINES,
    ),
    "an addition in four reductions": CudaPlant(
        "sums_take_one_reduction", "ops.cuh", _ADDS, _FOUR_ADDS, kernel=SUMS
    ),
    "an addition that two lines get": CudaPlant(
        "sums_take_one_reduction",
        "ll128_atomic.cuh",
        "if (active) add_part(line(first, plane), part);",
        "if (active) add_part(line(first, plane), part), add_part(line(first, 1 - plane), part);",
        kernel=SUMS,
        module=Module(120, 3, 1),
    ),
    "an addition for the own GPU": CudaPlant(
        "scopes_reach_the_system",
        "ops.cuh",
        "red.relaxed.sys.global.add",
        "red.relaxed.gpu.global.add",
        kernel=SUMS,
    ),
    "an addition without a meeting": CudaPlant(
        "warps_meet_before_lines",
        "ll128_atomic.cuh",
        "      warp_meets();\n      if (active) add_part",
        "      if (active) add_part",
        kernel=SUMS,
    ),
    "an addition by some of a line's threads": CudaPlant(
        "lines_stay_whole",
        "ll128_atomic.cuh",
        "if (active) add_part",
        "if (active && !holds_flag(thread_index())) add_part",
        kernel=SUMS,
        module=Module(100, 3, 0),
    ),
    "sums that are not zeroed": CudaPlant(
        "slots_take_one_access",
        "ll128_atomic.cuh",
        "if (active) store_part(line(first, plane), Part{});",
        "(void)active;",
        kernel=SUMS,
    ),
    "results without a fence": CudaPlant(
        "sums_are_zero_before_results_are_sent",
        "all_reduce_ll128_atomic.cuh",
        "  fence_system();\n",
        "",
        kernel=SUMS,
    ),
    "results behind one thread's fence": CudaPlant(
        "sums_are_zero_before_results_are_sent",
        "all_reduce_ll128_atomic.cuh",
        "  fence_system();\n",
        "  if (thread_index() == 0) fence_system();\n",
        kernel=SUMS,
        module=Module(120, 2, 1),
    ),
    "additions behind a fence": CudaPlant(
        "sums_are_zero_before_results_are_sent",
        "all_reduce_ll128_atomic.cuh",
        "  sums.begin(last);\n",
        "  sums.begin(last);\n  fence_system();\n",
        kernel=SUMS,
    ),
    "wide items of lines loaded narrowly": CudaPlant(
        "items_take_the_access_they_may",
        "line_items.cuh",
        "if (here(i, at)) eight = *reinterpret_cast<const u64*>(first + at * (8 / PER));",
        """if (here(i, at)) {
          const u32* p = reinterpret_cast<const u32*>(first + at * (8 / PER));
          eight = u64(p[1]) << 32 | p[0];
        }""",
        kernel=LINES,
    ),
}
