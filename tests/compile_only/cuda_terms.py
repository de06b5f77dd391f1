"""What the rules look for in the SASS of a CUDA kernel, and how often it has to be there."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tests.compile_only.cuda_builds import CudaBuild
from tests.compile_only.flow import Flow, Instruction, Test
from tests.compile_only.rules import (
    ACQUIRE,
    LL_LOAD,
    LL_STORE,
    WORD_LOAD,
    opcode,
    reads_clock,
)
from worldline.primitives.layout import TOKENS

# The arena's words are stored strongly, a caller's tensors are not.
WORD_STORE = opcode(r"STG\.E\.STRONG\.SYS")
_IN_TOKENS = re.compile(rf"\+0x{TOKENS >> 8:x}[0-3][0-9a-f]\]")
REDUCTION = opcode(r"(RED|REDG)\b.*")
ADD = opcode(r"REDG?\.E\.ADD\.F32x4(\.FTZ)?\.RN\.STRONG\.SYS")
ITEM_STORE = opcode(r"STG\.E(\.64|\.128|\.U16)?")
ITEM_LOAD = opcode(r"LDG\.E(\.64|\.128|\.U16)?")
MEMORY = opcode(r"(LD|LDG|ST|STG|ATOM|ATOMG|RED)\b.*")
BRANCH = opcode(r"BRA\b.*")
RETURN = opcode(r"RET\b.*")
VOTE = opcode(r"VOTE\.ALL")
POLLS = 4
"""Of a slot, between two looks at the count."""
WAIT_FOR_PREDECESSOR = opcode(r"ACQBULK")
LAUNCH_SUCCESSOR = opcode(r"PREEXIT")


def is_zero(instruction: Instruction) -> bool:
    """Tell a store that empties a slot."""
    return LL_STORE(instruction) and instruction.operands.endswith(", RZ")


def is_send(instruction: Instruction) -> bool:
    """Tell what sends a slot, or a thread's part of one: a store, or what adds to a peer's sums."""
    return ADD(instruction) or (LL_STORE(instruction) and not is_zero(instruction))


def token_loads(flow: Flow) -> list[int]:
    """List the loads that acquire: soon after them the cache is emptied."""
    return [i for i in flow.find(WORD_LOAD) if any(map(ACQUIRE, flow.code[i : i + 5]))]


def is_token(instruction: Instruction) -> bool:
    """Tell the store of a token."""
    return WORD_STORE(instruction) and bool(_IN_TOKENS.search(instruction.operands))


def around_looks(flow: Flow) -> list[int]:
    """List the branches that lead past a look at a slot, and past nothing else of a wait."""
    return [
        i
        for i in flow.find(opcode(r"BRA"))
        if any(map(LL_LOAD, until := flow.between(i)))
        and not any(VOTE(other) or reads_clock(other) for other in until)
    ]


def has_passes(build: CudaBuild) -> bool:
    """Say whether a kernel has several passes, and several items of a thread in registers."""
    return build.case.sentinel and build.case.loops


def rolled_sends(build: CudaBuild) -> int:
    """Peers whose sends the compiler may have left in a loop: where items are read in pieces."""
    return build.case.peers - 1 if has_passes(build) and not build.case.wide else 0


def sent_count(build: CudaBuild) -> int:
    """Count the slots, or parts of slots, that a thread sends at a time."""
    case = build.case
    return case.peers * ((case.planes or 1) + case.shots - 1) * case.batch


def received_count(build: CudaBuild) -> int:
    """Count those that it receives: of sums only its own."""
    case = build.case
    return case.planes + case.peers if case.planes else case.shots * case.peers * case.batch


def wait_count(build: CudaBuild) -> int:
    """Count the places where a thread waits: for a shot's slots, for sums, for a line at a time."""
    case = build.case
    if not case.lines:
        return case.shots
    return 1 + case.peers if case.planes else case.shots * case.peers


def rearm_count(build: CudaBuild) -> int:
    """Count the places where a kernel empties slots again: behind each look that can find data."""
    return (1 + POLLS) * received_count(build) if build.case.sentinel else 0


def listed(what: str, flow: Flow, places: Iterable[int]) -> list[str]:
    """Return lines for people about instructions."""
    return [f"{what}: {flow.code[i]}" for i in sorted(places)]


def token_waits(build: CudaBuild) -> int:
    """Count the places where a kernel tells tokens, and where it waits for them."""
    return build.case.sentinel * (2 if build.case.loops else 1)


def at_barrier(what: Test, barrier: int) -> Test:
    """Of a block's barriers, pick one by its number."""
    return lambda instruction: what(instruction) and f"0x{barrier}," in instruction.operands
