"""Parse PTX as Triton prints it, inline assembly included."""

from __future__ import annotations

import re

from tests.compile_only.flow import Flow, Instruction

_LABEL = re.compile(r"([$\w]+):\s*")
_GUARD = re.compile(r"@(!?%?\w+)\s+")
_COMMENT = re.compile(r"//.*")


def body(listing: str) -> str:
    """Return the text between a kernel's outermost braces, without comments."""
    text = _COMMENT.sub("", listing)
    return text[text.index("\n{\n") + 3 : text.rindex("\n}")]


def parse(listing: str) -> Flow:
    """Return a kernel's control flow.

    Labels and registers that a block of inline assembly declares get the block's number: several
    copies of a block use the same names.
    """
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    scopes, opened = [0], 0
    local: dict[int, set[str]] = {0: set()}

    def qualified(text: str) -> str:
        scope = scopes[-1]
        names = local[scope]
        return re.sub(r"[$%\w]+", lambda m: f"{m[0]}@{scope}" if m[0] in names else m[0], text)

    for statement in body(listing).split(";"):
        rest = statement.strip()
        while rest:
            if rest[0] == "{":
                opened += 1
                scopes.append(opened)
                local[opened] = set()
                rest = rest[1:].strip()
            elif rest[0] == "}":
                scopes.pop()
                rest = rest[1:].strip()
            elif found := _LABEL.match(rest):
                labels[_label(found[1], scopes)] = len(code)
                rest = rest[found.end() :]
            elif rest.startswith("."):
                if rest.startswith(".reg") and len(scopes) > 1:
                    local[scopes[-1]] |= set(re.findall(r"[%\w]+", rest.split(None, 2)[2]))
                rest = ""
            else:
                guard = _GUARD.match(rest)
                opcode, _, operands = rest[guard.end() if guard else 0 :].partition(" ")
                if "\t" in opcode:
                    opcode, _, more = opcode.partition("\t")
                    operands = f"{more} {operands}"
                operands = operands.strip()
                if opcode.startswith("bra"):
                    operands = _label(operands, scopes)
                code.append(
                    Instruction(opcode, qualified(operands), qualified(guard[1]) if guard else "")
                )
                rest = ""
    return Flow(code, [_successors(code, labels, i) for i in range(len(code))])


def _label(name: str, scopes: list[int]) -> str:
    # LLVM's own labels are unique, and jumps to them may leave a block.
    return name if name.startswith("$") else f"{name}#{scopes[-1]}"


def _successors(code: list[Instruction], labels: dict[str, int], i: int) -> tuple[int, ...]:
    instruction = code[i]
    following = (i + 1,) if i + 1 < len(code) else ()
    if instruction.opcode in ("ret", "exit", "trap"):
        return following if instruction.guard else ()
    if instruction.opcode.startswith("bra"):
        return (labels[instruction.operands], *(following if instruction.guard else ()))
    return following
