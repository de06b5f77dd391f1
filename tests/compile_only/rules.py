"""What must hold of each build. A rule returns what breaks it, as lines for people."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.compile_only.builds import Build
from tests.compile_only.cases import BARRIER
from tests.compile_only.flow import Instruction
from tests.compile_only.uniformity import parted_at_barriers

REGISTERS = 168
"""Three blocks of 128 threads still fit on a multiprocessor."""
_ONE_MEETING = (BARRIER, "sentinel_one_shot", "sentinel_two_shot")
EPOCH_WORDS_PER_THREAD = 4
"""512 epoch words, 128 threads."""


def opcode(pattern: str) -> Callable[[Instruction], bool]:
    """Return a test for instructions whose opcode matches as a whole."""
    compiled = re.compile(pattern)
    return lambda instruction: compiled.fullmatch(instruction.opcode) is not None


LL_LOAD = opcode(r"LDG\.E\.128\.STRONG\.SYS")
LL_STORE = opcode(r"STG\.E\.128\.STRONG\.SYS")
WEAK_128 = opcode(r"(LDG|STG)\.E\.(ENL2\.)?(128|256)(?!.*STRONG).*")
BLOCK_BARRIER = opcode(r"BAR\.SYNC.*")
ARRIVE = opcode(r"BAR\.ARV.*")
FENCE = opcode(r"MEMBAR\.(ALL|SC)\.SYS")
EXCHANGE = opcode(r"ATOMG\.E\.EXCH\.STRONG\.SYS")
ACQUIRE = opcode(r"CCTL\.IVALL")
WORD_LOAD = opcode(r"LDG\.E\.STRONG\.SYS")
FLAG_POLL = opcode(r"(LDG\.E|ATOMG\.E\.ADD)\.STRONG\.SYS")
WORD_STORE = opcode(r"STG\.E")
DATA_LOAD = opcode(r"LDG\.E(\.64|\.U16)?")
ITEM_STORE = opcode(r"STG\.E\.64")


def _publish(instruction: Instruction) -> bool:
    """Tell a flag's exchange from the busy word's: nobody asks what the flag was."""
    return EXCHANGE(instruction) and instruction.operands.split(",")[1].strip() == "RZ"


def _mark(instruction: Instruction) -> bool:
    return EXCHANGE(instruction) and not _publish(instruction)


def _data_store(instruction: Instruction) -> bool:
    """Tell a store that a flag covers: of staged data, or of a slot."""
    return ITEM_STORE(instruction) or LL_STORE(instruction)


def reads_clock(instruction: Instruction) -> bool:
    """Tell a read of the clock."""
    return "SR_GLOBALTIMER" in instruction.operands


def expect(what: str, found: int, wanted: int) -> list[str]:
    """Return a line where a count is not the wanted one."""
    return [] if found == wanted else [f"{found} {what}, not {wanted}"]


def _slotted(build: Build) -> bool:
    return build.case.algorithm.startswith(("ll_", "sentinel_"))


def _barriers(build: Build) -> int:
    """Count the meetings by flags: barriers, or the sentinel's exchange of tokens."""
    case = build.case
    return 0 if case.algorithm.startswith("ll_") else 2 if case.algorithm not in _ONE_MEETING else 1


def slots_take_one_access(build: Build) -> list[str]:
    """Each slot is written by one strong 128-bit store and polled by one such load."""
    if not _slotted(build):
        return []
    case, peers = build.case, build.case.world - 1
    shots = 1 if case.algorithm.endswith("one_shot") else 2
    # A receive polls once on the fast path and once in its waiting loop. One store clears LL's
    # slots, each receive re-arms the sentinel's.
    loads, more = 2 * shots * peers * case.per_thread, shots * peers if case.sentinel else 1
    stores = (shots * peers + more) * case.per_thread
    text, machine = build.ptx_flow, build.sass_flow
    return [
        *expect(
            "loads in PTX", len(text.find(opcode(r"ld\.relaxed\.sys\.global\.v2\.b64"))), loads
        ),
        *expect(
            "stores in PTX", len(text.find(opcode(r"st\.relaxed\.sys\.global\.v2\.b64"))), stores
        ),
        *expect("loads in SASS", len(machine.find(LL_LOAD)), loads),
        *expect("stores in SASS", len(machine.find(LL_STORE)), stores),
        *(f"weak: {machine.code[i]}" for i in machine.find(WEAK_128)),
    ]


def each_thread_spins_alone(build: Build) -> list[str]:
    """A slot's load is in a loop that holds no block-wide barrier."""
    if not _slotted(build):
        return []
    flow, broken = build.sass_flow, []
    for i in flow.find(LL_LOAD):
        loop = flow.innermost_loop(i)
        if not loop or any(map(BLOCK_BARRIER, loop)):
            broken.append(f"not in a loop of its own: {flow.code[i]}")
    return broken


def waiting_loops_look_again(build: Build) -> list[str]:
    """Every loop that reads the clock, to end at a deadline, polls in every round."""
    flow, broken, waits = build.sass_flow, [], 0
    for i in flow.find(reads_clock):
        loop = flow.innermost_loop(i)
        waits += bool(loop)
        slots = any(map(LL_LOAD, loop))
        flags = any(map(FLAG_POLL, loop)) and any(map(ACQUIRE, loop))
        polls = (slots and _slotted(build)) or (flags and bool(_barriers(build)))
        if loop and not polls:
            broken.append(f"a loop of {len(loop)} instructions reads the clock and no flag")
    return broken if waits else ["no loop reads the clock"]


def publish_follows_barrier_and_fence(build: Build) -> list[str]:
    """Between data or re-arms and the flag: a block-wide barrier, then a fence at system scope."""
    barriers = _barriers(build)
    if not barriers:
        return []
    flow, peers = build.sass_flow, build.case.world - 1
    early = flow.unseparated(_data_store, BLOCK_BARRIER, _publish)
    unfenced = flow.unseparated(BLOCK_BARRIER, FENCE, _publish)
    return [
        *expect("flags published", len(flow.find(_publish)), barriers * peers),
        *(f"no block-wide barrier before {line}" for line in early),
        *(f"no fence before {line}" for line in unfenced),
    ]


def data_waits_for_the_block(build: Build) -> list[str]:
    """Between one thread's acquire of a flag and what all threads do next: a block-wide barrier.

    They load the staged data, or fill slots that are empty again.
    """
    barriers = _barriers(build)
    if not barriers:
        return []
    flow, peers = build.sass_flow, build.case.world - 1
    return [
        # One on the way in, one in the waiting loop.
        *expect("acquires", len(flow.find(ACQUIRE)), 2 * peers * barriers),
        *(
            f"no block-wide barrier before {line}"
            for test in (DATA_LOAD, LL_STORE)
            for line in flow.unseparated(ACQUIRE, BLOCK_BARRIER, test)
        ),
    ]


def epoch_moves_after_all_have_read_it(build: Build) -> list[str]:
    """Between the load of the epoch (or round) and its store: a block-wide barrier."""
    if build.case.dtype == "float32" and not build.case.wide:
        return []  # Output goes out in stores of the same width.
    flow = build.sass_flow
    # The busy word is cleared by a store of the same width.
    # LL's launches advance every block's word; a sentinel's or a barrier's block moves its own, and
    # a sentinel's keeps what the launch was.
    stores = 1 + (EPOCH_WORDS_PER_THREAD if build.case.algorithm.startswith("ll_") else 1)
    stores += build.case.sentinel
    return [
        *expect("stores of epochs and marks", len(flow.find(WORD_STORE)), stores),
        *(
            f"no block-wide barrier before {line}"
            for line in flow.unseparated(WORD_LOAD, BLOCK_BARRIER, WORD_STORE)
        ),
    ]


def the_lane_is_entered_once(build: Build) -> list[str]:
    """One exchange marks the block busy, on one thread: a second thread's would find its mark."""
    marks = [build.sass_flow.code[i] for i in build.sass_flow.find(_mark)]
    text = [str(i) for i in build.ptx_flow.code if ".exch.b32" in i.opcode and not i.guard]
    return [*expect("marks of a busy block", len(marks), 1), *text]


def registers_suffice(build: Build) -> list[str]:
    """No spills, and no more registers than the launch allows."""
    spills = [str(i) for i in build.sass_flow.code if re.match(r"(STL|LDL)\b", i.opcode)]
    return [
        *spills,
        *expect("bytes of stack", build.stack, 0),
        *([f"{build.registers} registers"] if build.registers > REGISTERS else []),
    ]


def sums_are_plain(build: Build) -> list[str]:
    """Additions alone: nothing flushed, contracted or rounded another way."""
    if build.case.algorithm == BARRIER:
        return []
    code = build.ptx_flow.code
    floats = [i for i in code if re.search(r"\.(f16|bf16|f32)", i.opcode)]
    known = re.compile(
        r"add(\.rn)?\.f32(x2)?|cvt\.f32\.(f16|bf16)|cvt\.rn\.(f16|bf16)(x2)?\.f32"
        r"|setp\.(nan|num|neu|equ)\.f32"
    )
    additions = sum(
        2 if i.opcode.endswith("x2") else 1 for i in floats if i.opcode.startswith("add")
    )
    wanted = build.case.per_item * (build.case.world - 1) * build.case.per_thread
    machine = [i for i in build.sass_flow.code if re.match(r"FFMA|FMUL|.*\.FTZ", i.opcode)]
    return [
        *(str(i) for i in floats if not known.fullmatch(i.opcode)),
        *(str(i) for i in machine),
        *expect("additions", additions, wanted),
    ]


def scopes_reach_the_system(build: Build) -> list[str]:
    """Whatever has an order or is an atomic has system scope; nothing is cached as constant."""
    ordered = re.compile(r".*\.(relaxed|acquire|release|acq_rel|sc)\b|(atom|red|fence|membar)\b")
    return [
        str(i)
        for i in build.ptx_flow.code
        if (ordered.match(i.opcode) and ".sys" not in i.opcode)
        or re.search(r"\.(gpu|cta|cluster|nc)\b", i.opcode)
    ]


def wide_items_take_one_access(build: Build) -> list[str]:
    """With WIDE, items are loaded and stored by 64-bit accesses and none that is narrower."""
    case = build.case
    if case.algorithm == BARRIER or not case.wide:
        return []
    loads = {"ll_one_shot": 2, "ll_two_shot": case.world, "barrier_one_shot": case.world + 1}
    # A sentinel's item is a pair. What was sent is still at hand when it is added.
    loads |= {"sentinel_one_shot": 2, "sentinel_two_shot": 2 * case.world}
    text, machine = build.ptx_flow, build.sass_flow
    # Items are loaded under their mask; addresses of arenas always.
    items = [i for i in text.find(opcode(r"ld\.global\.b64")) if text.code[i].guard]
    return [
        *expect("loads of items", len(items), loads[case.algorithm] * case.per_thread),
        *(str(text.code[i]) for i in text.find(opcode(r"(ld|st)\.global\.\w*(8|16)"))),
        *(str(text.code[i]) for i in text.find(opcode(r"ld\.global\.\w*32"))),
        *(str(machine.code[i]) for i in machine.find(opcode(r"(LDG|STG)\.E\.U?S?(8|16)"))),
        *(str(machine.code[i]) for i in machine.find(opcode(r"LDG\.E"))),
    ]


def threads_part_at_no_barrier(build: Build) -> list[str]:
    """No branch on a clock or on a peer's word, unless the block has agreed on it."""
    return parted_at_barriers(build.ptx_flow)


RULES: tuple[Callable[[Build], list[str]], ...] = (
    slots_take_one_access,
    each_thread_spins_alone,
    waiting_loops_look_again,
    publish_follows_barrier_and_fence,
    data_waits_for_the_block,
    epoch_moves_after_all_have_read_it,
    the_lane_is_entered_once,
    registers_suffice,
    sums_are_plain,
    scopes_reach_the_system,
    wide_items_take_one_access,
    threads_part_at_no_barrier,
)


def broken(rule: Callable[[Build], list[str]], builds: list[Build]) -> dict[str, list[str]]:
    """Return what breaks a rule, by case."""
    found = {str(build.case): rule(build) for build in builds}
    return {case: lines for case, lines in found.items() if lines}
