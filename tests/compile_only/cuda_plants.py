"""Defects of CUDA code that only the compiled kernel shows, each planted to see its rule catch it.

A defect is an edit of one header in a copy of the sources.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.compile_only.cuda_builds import Module

WIDE = ("ll_one_shot", 0, True, 1)
HOPPER = Module(90, 2, 0)
NARROW = ("ll_one_shot", 0, False, 1)
SENTINEL = ("sentinel_one_shot", 2, True, 0)
PASSES = ("sentinel_one_shot", 2, True, 1)


@dataclass(frozen=True)
class CudaPlant:
    """One defect.

    Parameters
    ----------
    rule : str
        The rule that must catch it.
    header : str
        Where; the file's name.
    old, new : str
        The edit; ``old`` occurs once in the file.
    kernel : tuple
        Entry point, dtype's code and width of the kernel to compile.
    module : Module
        For what.
    """

    rule: str
    header: str
    old: str
    new: str
    kernel: tuple[str, int, bool] = WIDE
    module: Module = HOPPER


TWO_STORES = "st.relaxed.sys.global.b64 [%0], %1; st.relaxed.sys.global.b64 [%0+8], %2;"
_WORDS = "const u32* p = static_cast<const u32*>(base) + 2 * item;\n    const u64 both = "

CUDA_PLANTS = {
    "a slot in two stores": CudaPlant(
        "slots_take_one_access",
        "ops.cuh",
        "st.relaxed.sys.global.v2.b64 [%0], {%1, %2};",
        TWO_STORES,
    ),
    "a slot in a weak store": CudaPlant(
        "slots_take_one_access",
        "ops.cuh",
        "st.relaxed.sys.global.v2.b64",
        "st.global.v2.b64",
    ),
    "a peer that is left out": CudaPlant(
        "slots_take_one_access",
        "exchange.cuh",
        "for (int step = 1; step < WORLD; ++step) send(",
        "for (int step = 2; step < WORLD; ++step) send(",
        kernel=("ll_two_shot", 1, True, 1),
        module=Module(100, 3, 2),
    ),
    "a block-wide barrier in a wait": CudaPlant(
        "each_thread_spins_alone",
        "poll.cuh",
        "      pause();\n",
        "      block_barrier();\n",
    ),
    "a wait that looks once": CudaPlant(
        "waiting_loops_look_again",
        "poll.cuh",
        "        if (left[i]) look_again(i);\n",
        "        (void)look_again;\n",
    ),
    "an epoch that moves without a block-wide barrier": CudaPlant(
        "epoch_moves_after_all_have_read_it",
        "counters.cuh",
        "  block_barrier();\n  const u32 grid",
        "  const u32 grid",
    ),
    "a fence before the barrier that gathers zeroes": CudaPlant(
        "zeroes_are_out_before_sends",
        "epochs.cuh",
        "  block_barrier();\n  fence_system();\n",
        "  fence_system();\n  block_barrier();\n",
    ),
    "zeroes without a fence": CudaPlant(
        "zeroes_are_out_before_sends", "epochs.cuh", "  fence_system();\n", ""
    ),
    "a slot that is not re-armed": CudaPlant(
        "slots_take_one_access",
        "sentinel.cuh",
        "sentinel_rearm(slot(i));",
        "(void)i;",
        kernel=SENTINEL,
    ),
    "a token that releases nothing": CudaPlant(
        "tokens_are_released_and_acquired",
        "channel.cuh",
        "      fence_system();\n      tell();\n    }\n    if (launch_point",
        "      tell();\n    }\n    if (launch_point",
        kernel=SENTINEL,
    ),
    "a token of a pass that releases nothing": CudaPlant(
        "tokens_are_released_and_acquired",
        "channel.cuh",
        "        fence_system();\n        tell();\n",
        "        tell();\n",
        kernel=PASSES,
    ),
    "a count that moves without a block-wide barrier": CudaPlant(
        "epoch_moves_after_all_have_read_it",
        "channel.cuh",
        "      wait_at(SENT);\n      if (thread == workers) store_u32(word, pass.count);\n",
        "      if (thread == workers) store_u32(word, pass.count);\n      wait_at(SENT);\n",
        kernel=SENTINEL,
    ),
    "a pass that starts unasked": CudaPlant(
        "passes_follow_each_other", "channel.cuh", "    wait_at(GRANTED);\n", "", kernel=PASSES
    ),
    "an arrival that waits": CudaPlant(
        "passes_follow_each_other",
        "channel.cuh",
        "{ arrive_at(SENT); }",
        "{ wait_at(SENT); }",
        kernel=SENTINEL,
    ),
    "a token that is not acquired": CudaPlant(
        "tokens_are_released_and_acquired",
        "ops.cuh",
        "ld.acquire.sys.global.u32",
        "ld.relaxed.sys.global.u32",
        kernel=SENTINEL,
    ),
    "tokens that are not waited for": CudaPlant(
        "waiting_loops_look_again",
        "tokens.cuh",
        "    if (int(seen - token) >= 0) return true;\n",
        "    return true;\n",
        kernel=SENTINEL,
    ),
    "a mark that every thread sets": CudaPlant(
        "the_lane_is_entered_once",
        "overlap.cuh",
        "return thread_index() == 0 ? exchange_u32(busy, 1) : 0;",
        "return exchange_u32(busy, 1);",
    ),
    "a mark that is asked for at once": CudaPlant(
        "nobody_waits_for_the_mark",
        "overlap.cuh",
        "if (not_before_here(found))",
        "if (found)",
        module=Module(100, 2, 0),
    ),
    "a mark before the sends": CudaPlant(
        "nobody_waits_for_the_mark",
        "epochs.cuh",
        "    epoch = epoch_after(last);\n",
        """    epoch = epoch_after(last);
    if (thread_index() == 0) exchange_u32(block_word(own, BUSY, block_index()), 1);
""",
    ),
    "an array that is indexed at run time": CudaPlant(
        "registers_suffice",
        "all_reduce_ll.cuh",
        "  const Data mine = exchange.begin([&] {",
        """  volatile u32 kept[32];
  kept[exchange.threads & 31] = exchange.threads;
  Data mine{{0, kept[thread & 31] & 0}};
  mine = exchange.begin([&] {""",
    ),
    "a sum contracted with a product": CudaPlant(
        "sums_are_plain", "ops.cuh", "return __fadd_rn(a, b);", "return a + b * 1.5f;"
    ),
    "a sum that flushes subnormals": CudaPlant(
        "sums_are_plain",
        "ops.cuh",
        "return __fadd_rn(a, b);",
        'float c; asm("add.ftz.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c;',
    ),
    "a sum that starts at zero": CudaPlant(
        "sums_are_plain",
        "reduce.cuh",
        """    if (rank == 0)
      total = unpack<NUMBERS>(data, scale);
    else
      accumulate""",
        """    if (rank == 0) total = {};
    accumulate""",
    ),
    "a fence for the own GPU": CudaPlant(
        "scopes_reach_the_system", "ops.cuh", "fence.acq_rel.sys;", "fence.acq_rel.gpu;"
    ),
    "a mark for the own GPU": CudaPlant(
        "scopes_reach_the_system",
        "ops.cuh",
        "atom.relaxed.sys.global.exch.b32",
        "atom.relaxed.gpu.global.exch.b32",
    ),
    "an input cached as constant": CudaPlant(
        "scopes_reach_the_system",
        "vectors.cuh",
        "static_cast<const u64*>(base)[item];",
        "__ldg(static_cast<const u64*>(base) + item);",
    ),
    "wide items loaded narrowly": CudaPlant(
        "items_take_the_access_they_may",
        "vectors.cuh",
        "const u64 both = static_cast<const u64*>(base)[item];",
        f"{_WORDS}u64(p[1]) << 32 | p[0];",
    ),
    "narrow items loaded widely": CudaPlant(
        "items_take_the_access_they_may",
        "vectors.cuh",
        "load_item(const void* base, u64 item, u64 count) {\n  if constexpr (WIDE) {",
        "load_item(const void* base, u64 item, u64 count) {\n  if constexpr (true) {",
        kernel=NARROW,
    ),
    "no wait for the predecessor": CudaPlant(
        "launches_depend", "ops.cuh", "@p griddepcontrol.wait;", ""
    ),
    "a load before the wait": CudaPlant(
        "launches_depend",
        "all_reduce_ll.cuh",
        "all_reduce_ll_one_shot(const AllReduce& a) {\n",
        """all_reduce_ll_one_shot(const AllReduce& a) {
  if (!lane_alive(a.lane.base[RANK])) return;
""",
    ),
    "a successor that is never launched early": CudaPlant(
        "launches_depend",
        "ops.cuh",
        'asm volatile("griddepcontrol.launch_dependents;" ::: "memory");',
        "",
    ),
    "a wait that nothing keeps addresses before": CudaPlant(
        "nothing_is_computed_after_the_wait",
        "ops.cuh",
        "@p griddepcontrol.wait;",
        "griddepcontrol.wait;",
    ),
    "a successor launched before the sends instead of after": CudaPlant(
        "launches_depend",
        "all_reduce_ll.cuh",
        "    exchange.send_to_all(0, item, input(item));\n  });\n  exchange.sent();\n",
        """    if (exchange.launch_point == 1) launch_successor();
    exchange.send_to_all(0, item, input(item));
  });
  exchange.sent();
""",
        module=Module(120, 2, 1),
    ),
}
