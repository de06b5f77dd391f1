"""Defects that only a compiler shows, each planted to see its rule catch it.

A defect is an edit of one source file in a copy of the package: Triton compiles from source text.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.compile_only.cases import Case

LL = Case("ll_one_shot", 90, 2, 0)
BARRIER = Case("barrier_one_shot", 90, 2, 0)
SENTINEL = Case("sentinel_one_shot", 90, 2, 0)


@dataclass(frozen=True)
class Plant:
    """One defect.

    Parameters
    ----------
    rule : str
        The rule that must catch it.
    case : Case
        What to compile.
    file : str
        Where, in the repository.
    old, new : str
        The edit; ``old`` occurs once in the file.
    """

    rule: str
    case: Case
    file: str
    old: str
    new: str


_ASM_POLL = """        word0, word1 = tl.inline_asm_elementwise(
            _POLL_PAIR,
            "=&l,=&l,l,r,r,~{memory}",
            [pair, flag, mask.to(tl.int32)],
            dtype=(tl.int64, tl.int64),
            is_pure=False,
            pack=1,
        )
"""
_PLAIN_POLL = """        pointer = pair.to(tl.pointer_type(tl.int64))
        word0 = tl.load(pointer, mask=mask, other=0)
        word1 = tl.load(pointer + 1, mask=mask, other=0)
"""
_TWO_STORES = (
    "@live st.relaxed.sys.global.b64 [$1], $2;\n        @live st.relaxed.sys.global.b64 [$1+8], $3;"
)
# With what only the one-shot kernel has before it.
_SENTINEL_ALIVE = """    stride: tl.constexpr = CHANNEL // SLOT // (WORLD - 1 if WORLD > 1 else 1)
    first = begin_stage(arena, block)
    number = first
    several = grid * BLOCK < slots
    exchanges = exchanges_tokens(block, first, several)
    heard = first_heard(first, several, came_after_several(arena, block))
    # Each thread has read the dead word for itself.
    alive = agreed(lane_alive(arena))
"""

PLANTS = {
    "a poll that counts as pure": Plant(
        "waiting_loops_look_again",
        LL,
        "primitives/memory_ops.py",
        _ASM_POLL,
        _ASM_POLL.replace("is_pure=False", "is_pure=True"),
    ),
    "a poll by plain loads": Plant(
        "waiting_loops_look_again", LL, "primitives/memory_ops.py", _ASM_POLL, _PLAIN_POLL
    ),
    "a slot in two stores": Plant(
        "slots_take_one_access",
        LL,
        "primitives/memory_ops.py",
        "@live st.relaxed.sys.global.v2.b64 [$1], {$2, $3};",
        _TWO_STORES,
    ),
    "a poll that loads once": Plant(
        "each_thread_spins_alone",
        LL,
        "primitives/memory_ops.py",
        "setp.eq.and.u32 hit, flag1, $3, hit;\n        @hit bra DONE;\n"
        "        sub.u32 left, left, 1;\n        setp.ne.u32 again, left, 0;\n"
        "        @again bra POLL;\n",
        "",
    ),
    "a slot that is not re-armed": Plant(
        "slots_take_one_access",
        SENTINEL,
        "primitives/sentinel.py",
        "    store_pair(address, empty, empty, wanted & (alive != 0))\n",
        "",
    ),
    "a token published relaxed": Plant(
        "publish_follows_barrier_and_fence",
        SENTINEL,
        "primitives/signals.py",
        'tl.atomic_xchg(flag, value, sem="release"',
        'tl.atomic_xchg(flag, value, sem="relaxed"',
    ),
    "tokens on a dead word that threads read apart": Plant(
        "threads_part_at_no_barrier",
        SENTINEL,
        "kernels/all_reduce_sentinel.py",
        _SENTINEL_ALIVE,
        _SENTINEL_ALIVE.replace("agreed(lane_alive(arena))", "lane_alive(arena)"),
    ),
    "a flag published without a block-wide barrier": Plant(
        "publish_follows_barrier_and_fence",
        BARRIER,
        "primitives/signals.py",
        "    tl.debug_barrier()\n    tl.atomic_xchg(flag, value,",
        "    tl.atomic_xchg(flag, value,",
    ),
    "a flag published relaxed": Plant(
        "publish_follows_barrier_and_fence",
        BARRIER,
        "primitives/signals.py",
        'tl.atomic_xchg(flag, value, sem="release"',
        'tl.atomic_xchg(flag, value, sem="relaxed"',
    ),
    "a flag polled relaxed": Plant(
        "data_waits_for_the_block",
        BARRIER,
        "primitives/signals.py",
        'pause()\n            seen = tl.atomic_add(flag, nothing, sem="acquire"',
        'pause()\n            seen = tl.atomic_add(flag, nothing, sem="relaxed"',
    ),
    "a flag published to the own GPU": Plant(
        "scopes_reach_the_system",
        BARRIER,
        "primitives/signals.py",
        'tl.atomic_xchg(flag, value, sem="release", scope="sys")',
        'tl.atomic_xchg(flag, value, sem="release", scope="gpu")',
    ),
    "a mark that every thread sets": Plant(
        "the_lane_is_entered_once",
        LL,
        "primitives/memory_ops.py",
        "@first atom.relaxed.sys.global.exch.b32",
        "atom.relaxed.sys.global.exch.b32",
    ),
    "an epoch that moves without a block-wide barrier": Plant(
        "epoch_moves_after_all_have_read_it",
        LL,
        "primitives/counters.py",
        "    tl.debug_barrier()\n    word = block",
        "    word = block",
    ),
    "a launch with few registers": Plant(
        "registers_suffice",
        LL,
        "kernels/launch.py",
        '"maxnreg": REGISTERS}',
        '"maxnreg": 24}',
    ),
    "a sum contracted with a product": Plant(
        "sums_are_plain",
        LL,
        "primitives/numerics.py",
        "        result = total + more\n",
        "        result = total + more * 3\n",
    ),
    "wide items loaded narrowly": Plant(
        "wide_items_take_one_access",
        LL,
        "primitives/vectors.py",
        "    if WIDE or size == 8:\n        both = tl.load(",
        "    if size == 8:\n        both = tl.load(",
    ),
    "threads that part on the clock": Plant(
        "threads_part_at_no_barrier",
        LL,
        "primitives/ll.py",
        "    if waiting != 0:\n        source = ",
        "    if (waiting != 0) & (clock_ns() > 0):\n        source = ",
    ),
}


def plant(root: Path, place: Path, defect: Plant) -> Path:
    """Copy the package into ``place`` as it is imported, with a defect; return the copy.

    Raises
    ------
    AssertionError
        Where the defect's old text does not occur exactly once: the source has moved on.
    """
    tree = place / "planted"
    skip = shutil.ignore_patterns("__pycache__", "demo")
    shutil.copytree(root / "worldline", tree / "worldline", ignore=skip)
    for room in ("primitives", "kernels"):
        shutil.copytree(root / room, tree / "worldline" / room, ignore=skip)
    file = tree / "worldline" / defect.file
    source = file.read_text()
    found = source.count(defect.old)
    assert found == 1, f"{defect.file} holds {found} times, not once: {defect.old!r}"
    file.write_text(source.replace(defect.old, defect.new))
    return tree
