"""Threads of a block that disagree must not part ways around a block-wide barrier.

A scalar in Triton is one copy a thread. Where each thread reads the clock, or a word that another
rank may write in that moment, the copies can differ; a branch on them then sends warps to
different barriers, whose shared scratch gets mixed. A verdict becomes common to the block by going
through shared memory: a reduction, or the result of an atomic.
"""

from __future__ import annotations

import re

from tests.compile_only.flow import Flow, Instruction

_REGISTER = re.compile(r"%\w+(?:@\d+)?|\b[a-z]\w*@\d+")
_OWN = re.compile(r"%(globaltimer|clock|tid|laneid|warpid)")
_OTHERS_WRITE = re.compile(
    r"(atom\b|redux|shfl|vote|ld\.[\w.]*(relaxed|acquire)|ld\.volatile\.global\.\w*64)"
)
_NO_RESULT = re.compile(r"(st|red|bar|barrier|bra|fence|membar|ret|exit)\b")


def _parts(instruction: Instruction) -> tuple[set[str], set[str]]:
    """Return the registers that an instruction writes, and those that it reads."""
    text = instruction.operands
    if _NO_RESULT.match(instruction.opcode):
        return set(), set(_REGISTER.findall(text))
    cut = text.index("}") + 1 if text.startswith("{") else (text + ",").index(",")
    read = set(_REGISTER.findall(text[cut:])) | set(_REGISTER.findall(instruction.guard))
    return set(_REGISTER.findall(text[:cut])), read


def differing(flow: Flow) -> set[str]:
    """Return the registers that may hold different values in threads of one block."""
    parts = [_parts(instruction) for instruction in flow.code]
    found: set[str] = set()
    grown = True
    while grown:
        grown = False
        for instruction, (written, read) in zip(flow.code, parts, strict=True):
            own = (
                _OWN.search(instruction.operands)
                or _OTHERS_WRITE.match(instruction.opcode)
                or read & found
            )
            if own and not written <= found:
                found |= written
                grown = True
    return found


def parted_at_barriers(flow: Flow) -> list[str]:
    """List branches on which threads may part, with a block-wide barrier before they meet."""
    registers = differing(flow)
    return [
        str(branch)
        for i, branch in enumerate(flow.code)
        if branch.opcode.startswith("bra") and branch.guard.lstrip("!") in registers
        if any(other.opcode.startswith(("bar.", "barrier.")) for other in flow.between(i))
    ]
