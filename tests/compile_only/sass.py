"""Parse SASS as ``nvdisasm -c`` prints it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tests.compile_only.flow import Flow, Instruction

_LINE = re.compile(r"/\*[0-9a-f]+\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
_LABEL = re.compile(r"^(\.L_x_\d+):")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")
_SECTION = re.compile(r"^\t\.section\t\.text\.(\w+),", re.MULTILINE)
_FUNCTION = re.compile(r"^(\$[\w$]+):", re.MULTILINE)
_UNKNOWN = re.compile(r"(CALL|RET|BRX|BRXU|JMP|JMX|JMXU|RPCMOV|KILL)\b")
_KNOWN_CALL = re.compile(r"(CALL|RET)\.REL\b")


def parse(listing: str) -> Flow:
    """Return the control flow of a kernel that calls nothing.

    Raises
    ------
    ValueError
        For a jump of a kind that it does not follow, a call included.
    """
    return _parse(listing.splitlines(), calls=False)


def functions(listing: str) -> dict[str, dict[str, Flow]]:
    """Return the control flow of every function of a module.

    Returns
    -------
    dict
        For each kernel's symbol its functions by name: ``""`` is the kernel itself, the others
        are what it calls. A call leads to the instruction after it, a return nowhere.
    """
    found = {}
    parts = _SECTION.split(listing)
    for symbol, text in zip(parts[1::2], parts[2::2], strict=True):
        bodies = _FUNCTION.split(text)
        names = ["", *bodies[1::2]]
        found[symbol] = {
            name: _parse(body.splitlines(), calls=True)
            for name, body in zip(names, bodies[::2], strict=True)
        }
    return found


def _parse(lines: Iterable[str], calls: bool) -> Flow:
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in lines:
        if label := _LABEL.match(line):
            labels[label[1]] = len(code)
        elif found := _LINE.search(line):
            code.append(Instruction(found[2], found[3].strip(), found[1] or ""))
    meetings = _meetings(code, labels)
    return Flow(code, [_successors(code, labels, meetings, i, calls) for i in range(len(code))])


def _successors(
    code: list[Instruction],
    labels: dict[str, int],
    meetings: dict[str, set[int]],
    i: int,
    calls: bool,
) -> tuple[int, ...]:
    instruction = code[i]
    if _UNKNOWN.match(instruction.opcode) and not (calls and _KNOWN_CALL.match(instruction.opcode)):
        raise ValueError(f"a jump that this parser does not follow: {instruction}")
    following = (i + 1,) if i + 1 < len(code) else ()
    if instruction.opcode == "EXIT" or instruction.opcode.startswith("RET"):
        return following if instruction.guard else ()
    if instruction.opcode.startswith("BRA"):
        target = _TARGET.search(instruction.operands)
        if target is None:
            raise ValueError(f"a branch without a label: {instruction}")
        # The condition is a guard, or an operand before the label, or both.
        conditional = instruction.guard or not instruction.operands.startswith("`")
        return (labels[target[1]], *(following if conditional else ()))
    if instruction.opcode.startswith("CALL"):
        # To a label of the same function it is a jump out of a loop, or a function that returns.
        target = _TARGET.search(instruction.operands)
        if target is not None and target[1] in labels:
            return (labels[target[1]], *following)
    if instruction.opcode.startswith("BSYNC"):
        # Where threads go on that have met: the label that the meeting was announced with.
        targets = meetings.get(instruction.operands, set())
        return (i + 1,) if i + 1 in targets else tuple(sorted(targets))
    return following


def _meetings(code: list[Instruction], labels: dict[str, int]) -> dict[str, set[int]]:
    """Return, for each register of meetings, the places that BSSY announces with it."""
    found: dict[str, set[int]] = {}
    for instruction in code:
        if instruction.opcode.startswith("BSSY") and (
            target := _TARGET.search(instruction.operands)
        ):
            register = instruction.operands.split(",")[0]
            found.setdefault(register, set()).add(labels[target[1]])
    return found
