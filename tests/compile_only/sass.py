"""Parse SASS as ``nvdisasm -c`` prints it."""

from __future__ import annotations

import re

from tests.compile_only.flow import Flow, Instruction

_LINE = re.compile(r"/\*[0-9a-f]+\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
_LABEL = re.compile(r"^(\.L_x_\d+):")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")
_UNKNOWN = re.compile(r"(CALL|RET|BRX|BRXU|JMP|JMX|JMXU|BREAK|RPCMOV|KILL)\b")


def parse(listing: str) -> Flow:
    """Return a kernel's control flow.

    Raises
    ------
    ValueError
        For a jump of a kind that it does not follow.
    """
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in listing.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(code)
        elif found := _LINE.search(line):
            code.append(Instruction(found[2], found[3].strip(), found[1] or ""))
    successors = [_successors(code, labels, i) for i in range(len(code))]
    return Flow(code, successors)


def _successors(code: list[Instruction], labels: dict[str, int], i: int) -> tuple[int, ...]:
    instruction = code[i]
    if _UNKNOWN.match(instruction.opcode):
        raise ValueError(f"a jump that this parser does not follow: {instruction}")
    following = (i + 1,) if i + 1 < len(code) else ()
    if instruction.opcode == "EXIT":
        return following if instruction.guard else ()
    if instruction.opcode.startswith("BRA"):
        target = _TARGET.search(instruction.operands)
        if target is None:
            raise ValueError(f"a branch without a label: {instruction}")
        # The condition is a guard, or an operand before the label, or both.
        conditional = instruction.guard or not instruction.operands.startswith("`")
        return (labels[target[1]], *(following if conditional else ()))
    if instruction.opcode.startswith("BSYNC"):
        return _after_sync(code, labels, i)
    return following


def _after_sync(code: list[Instruction], labels: dict[str, int], i: int) -> tuple[int, ...]:
    """Where threads go on that have met: the label that the meeting was announced with."""
    register = code[i].operands
    targets = {
        labels[found[1]]
        for other in code
        if other.opcode.startswith("BSSY") and other.operands.split(",")[0] == register
        if (found := _TARGET.search(other.operands))
    }
    return (i + 1,) if i + 1 in targets else tuple(sorted(targets))
