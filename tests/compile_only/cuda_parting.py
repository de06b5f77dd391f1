"""Where threads of a warp may part, in SASS: the branches and guards on what differs among them.

A register may hold different values in them if it came of a value that does, or was written where
only some of them came by. What all of them have voted on is common to them.
"""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass, field

from tests.compile_only.flow import Flow, Instruction, Test

_REGISTER = re.compile(r"\b(U?[RP])(\d+)(\.64)?")
_PREDICATE = re.compile(r"U?P(\d|T)")
_NO_RESULT = re.compile(
    r"(ST|STG|RED|BAR|BRA|BSSY|BSYNC|BREAK|EXIT|CALL|RET|NOP|YIELD|WARPSYNC|ENDCOLLECTIVE|MEMBAR"
    r"|ERRBAR|CGAERRBAR|CCTL|ACQBULK|PREEXIT)\b"
)
_PAIR = re.compile(r"(?!U?SHF).*\.[SU]?64\b|CS2R$")
_MEMORY = re.compile(r"LDG|LDC|ULDC|ATOMG")
_CARRIES = re.compile(r"U?IADD3|LEA")
# How the compiler sets the lower half of a register, which is all that it reads of it thereafter.
_HALF = re.compile(r"(R\d+), (\w+), 0x7610, R\d+")
# How it clears, sets and tests single bits, and saves one: where it runs out of predicates.
_BITS = re.compile(r"(?:(P\d), )?(R\d+|RZ), (R\d+)(?:\.reuse)?, (0x\w+), RZ, (0xc0|0xfc), !PT")
_SAVED = re.compile(r"(R\d+), PR, RZ, (0x\w+)")
_RESTORED = re.compile(r"(P\d), PT, (R\d+), RZ, PT")
_ALL = 0xFFFFFFFF
_IN_LINE, _OF_WARP = ", 0x7, ", ", 0xffffffe0, "
"""Of a thread's number: its place in a line, and what threads of its warp have in common."""


def together(flow: Flow) -> Flow:
    """Return the ways of a warp that is together.

    Where the compiler is not sure of that, it asks, and has a slower way for a warp that is not.
    """

    def on(i: int, following: tuple[int, ...]) -> tuple[int, ...]:
        asks = flow.code[i].opcode
        if asks == "BRA.DIV":
            return (i + 1,)
        return tuple(n for n in following if n != i + 1) if asks == "BRA.CONV" else following

    return Flow(flow.code, [on(i, following) for i, following in enumerate(flow.successors)])


def until_together(flow: Flow, branch: int) -> frozenset[int]:
    """Return what may run from a branch until threads that part there have been made to meet.

    They meet where the whole warp does, and at the end of what began before the branch.
    """
    stack = [(following, frozenset[str]()) for following in flow.successors[branch]]
    seen, reached = set(stack), set()
    while stack:
        node, begun = stack.pop()
        what = flow.code[node]
        name = what.operands.split(",")[0]
        if what.opcode.startswith("BSSY"):
            begun |= {name}
        elif _meets(what) or (what.opcode.startswith("BSYNC") and name not in begun):
            continue
        elif what.opcode.startswith("BSYNC"):
            begun -= {name}
        reached.add(node)
        new = {(following, begun) for following in flow.successors[node]} - seen
        seen |= new
        stack += new
    return frozenset(reached)


def _meets(instruction: Instruction) -> bool:
    """Tell what makes a warp meet, or asks first whether it has to."""
    return instruction.opcode in ("WARPSYNC", "WARPSYNC.ALL", "BRA.CONV")


def within_lines(flow: Flow) -> Parting:
    """Say where threads that share a line may part.

    On a clock, on what they load (others write it, or it is data), on who of them holds the flag.
    Which lines there are is the same for all threads of a line, and the epoch for all of a block.
    """
    return parting(flow, _in_lines, _voted, lambda _: False)


def within_warps(flow: Flow) -> Parting:
    """Say where threads of a warp may part: besides, on anything that comes of their number."""
    return parting(
        flow,
        lambda what: _in_lines(what) or "SR_TID" in what.operands,
        lambda what: _voted(what) or (what.opcode == "LOP3.LUT" and _OF_WARP in what.operands),
        # The compiler may copy a vote for threads with a line and for those without.
        _voted,
    )


def _in_lines(instruction: Instruction) -> bool:
    opcode, operands = instruction.opcode, instruction.operands
    loads = opcode.startswith(("LDG", "ATOMG")) and opcode != "LDG.E.STRONG.SYS"
    return loads or "SR_GLOBALTIMER" in operands or (opcode == "LOP3.LUT" and _IN_LINE in operands)


def _voted(instruction: Instruction) -> bool:
    return instruction.opcode == "VOTE.ALL"


@dataclass(frozen=True)
class Parting:
    """Where threads may part.

    Parameters
    ----------
    branches : dict
        Branches that only some threads may take: what may run until their ways have met.
    guarded : frozenset of int
        Other instructions that only some threads may execute.
    """

    branches: dict[int, frozenset[int]]
    guarded: frozenset[int]

    @property
    def apart(self) -> frozenset[int]:
        """What only some threads may execute."""
        return self.guarded.union(*self.branches.values())


def parting(flow: Flow, differs: Test, common: Test, bound: Test) -> Parting:
    """Follow values from where they differ, but not through what makes them common.

    Nor from where some threads only come by, if what is ``bound`` is on their ways until they meet.
    """
    steps = [_Step(instruction, differs, common) for instruction in _without_spills(flow)]
    branches: dict[int, frozenset[int]] = {}
    while True:
        decide = [ways for ways in branches.values() if not any(bound(flow.code[i]) for i in ways)]
        found = _found(flow, steps, frozenset[int]().union(*decide))
        parted = {i for i in found if len(flow.successors[i]) > 1}
        if parted <= branches.keys():
            return Parting(branches, frozenset(found - parted))
        branches |= {i: flow.until_met(i) for i in parted - branches.keys()}


def _without_spills(flow: Flow) -> list[Instruction]:
    """Return the code with a predicate of its own for what borrows another's.

    Where it runs out of them the compiler saves one in a register, and restores it when it has used
    it for something else. What it holds then is what it held before, for all threads.
    """
    code, end = list(flow.code), 0
    for i, saving in enumerate(flow.code):
        saved = _SAVED.fullmatch(saving.operands) if saving.opcode == "P2R" else None
        if i < end or saved is None or saving.guard or int(saved[2], 16).bit_count() != 1:
            continue
        register, predicate = saved[1], f"P{int(saved[2], 16).bit_length() - 1}"
        end = i + 1
        while (
            flow.successors[end - 1] == (end,) and register not in _written_and_read(code[end])[0]
        ):
            restored = _RESTORED.fullmatch(code[end].operands)
            if code[end].opcode == "ISETP.NE.AND" and restored and restored[2] == register:
                if restored[1] == predicate and not code[end].guard:
                    _lend(code, range(i + 1, end), predicate)
                break
            end += 1
    return code


def _lend(code: list[Instruction], ways: range, predicate: str) -> None:
    """Give what is written to a predicate there an unused name, and leave out its restoring."""
    first = next((k for k in ways if predicate in _written_and_read(code[k])[0]), ways.stop)
    using = [k for k in ways[first - ways.start :] if predicate in _names(str(code[k]), 1)]
    # What it held before is not to be read any more where a guard may have kept it.
    if first == ways.stop or predicate in _written_and_read(code[first])[1]:
        return
    if code[first].guard and any(code[k].guard != code[first].guard for k in using):
        return
    for k in using:
        code[k] = _renamed(code[k], predicate, "P8")
    code[ways.stop] = Instruction("NOP", "")


def _renamed(instruction: Instruction, old: str, new: str) -> Instruction:
    texts = (instruction.operands, instruction.guard)
    operands, guard = (re.sub(rf"\b{old}\b", new, text) for text in texts)
    return Instruction(instruction.opcode, operands, guard)


def _found(flow: Flow, steps: list[_Step], apart: frozenset[int]) -> set[int]:
    """List the instructions that hang on what differs."""
    entries = {n for i in flow.live for n in flow.successors[i] if n != i + 1}
    entries |= {i + 1 for i in flow.live if len(flow.successors[i]) != 1}
    before = {i: _State() for i in (entries & flow.live) | {0}}
    waiting = sorted(before)
    found = set()
    while waiting:
        i = heapq.heappop(waiting)
        state = before[i].copy()
        while True:
            if steps[i].hangs_on(state):
                found.add(i)
            steps[i].run(state, i in apart)
            following = flow.successors[i]
            if following != (i + 1,) or i + 1 in before:
                break
            i += 1
        for n in following:
            if before[n].add(state, steps[i].gone(n == i + 1)) and n not in waiting:
                heapq.heappush(waiting, n)
    return found


@dataclass
class _State:
    """Which bits of registers may differ.

    Parameters
    ----------
    always : dict
        By register.
    where : dict
        By register and a predicate that has to hold for it.
    """

    always: dict[str, int] = field(default_factory=dict)
    where: dict[tuple[str, str], int] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(dict(self.always), dict(self.where))

    def add(self, other: _State, gone: str) -> bool:
        """Add what may differ on another way here, where a predicate does not hold; was it news?"""
        news = False
        for register, bits in other.always.items():
            if bits & ~self.always.get(register, 0):
                self.always[register] = self.always.get(register, 0) | bits
                news = True
        for place, bits in other.where.items():
            if place[1] != gone and bits & ~self.where.get(place, 0):
                self.where[place] = self.where.get(place, 0) | bits
                news = True
        return news


class _Step:
    """What one instruction makes of what differs."""

    def __init__(self, instruction: Instruction, differs: Test, common: Test) -> None:
        self.guard = guard = instruction.guard
        self.otherwise = guard[1:] if guard.startswith("!") else f"!{guard}"
        self.differs, self.common = differs(instruction), common(instruction)
        self.written, self.read = _written_and_read(instruction)
        self.conditions = _names(guard, 1)
        self.branch = instruction.opcode == "BRA"
        self.more = self.branch and not instruction.operands.startswith("`")
        if self.branch:
            self.conditions |= _names(instruction.operands.partition("`")[0], 1)
        is_logic = instruction.opcode == "LOP3.LUT"
        self.bits = _BITS.fullmatch(instruction.operands) if is_logic else None

    def hangs_on(self, state: _State) -> bool:
        """Say whether only some threads may execute it, or take the branch."""
        return bool(self._differing(state, self.conditions))

    def gone(self, onwards: bool) -> str:
        """Return the predicate that does not hold on the way onwards, or to the branch's target."""
        if not self.branch or (onwards and self.more):
            return ""
        return self.guard if onwards else self.otherwise

    def _differing(self, state: _State, registers: set[str]) -> int:
        """Return which bits of some registers may differ where the guard holds."""
        mask = 0
        for register in registers:
            mask |= state.always.get(register, 0)
        for (register, where), bits in state.where.items():
            if register in registers and not (self.guard and where == self.otherwise):
                mask |= bits
        return mask

    def run(self, state: _State, apart: bool) -> None:
        """Bring what differs up to date."""
        if not self.written:
            return
        results, kept = self._results(state, apart), dict.fromkeys(self.written, 0)
        for (register, where), bits in list(state.where.items()):
            if register in self.written:
                del state.where[register, where]
                kept[register] |= bits if where != self.guard else 0
            elif where.lstrip("!") in self.written:
                # The predicate changes: nobody knows any more where it held.
                del state.where[register, where]
                state.always[register] = state.always.get(register, 0) | bits
        for register, bits in kept.items():
            # What it held before it holds on where the guard does not.
            before = bits | state.always.pop(register, 0)
            before, now = before if self.guard else 0, results.get(register, 0)
            if self.guard.lstrip("!") in self.written:
                now |= before
            elif before:
                state.where[register, self.otherwise] = before
            if now:
                state.always[register] = now

    def _results(self, state: _State, apart: bool) -> dict[str, int]:
        """Return which bits of what it writes may differ."""
        if self.common:
            return {}
        mine = apart or self.differs or self.hangs_on(state)
        if self.bits:
            predicate, register, source, text, table = self.bits.groups()
            constant = int(text, 16)
            kept = constant if table == "0xc0" else ~constant & _ALL
            mask = self._differing(state, {source}) & kept | (~kept & _ALL if mine else 0)
            return {register: mask, predicate: int(mask > 0)}
        differ = mine or self._differing(state, self.read)
        return dict.fromkeys(self.written, _ALL) if differ else {}


def _names(text: str, width: int) -> set[str]:
    """List the registers of some operands, of which each is so many that follow each other."""
    found = set()
    for kind, number, pair in _REGISTER.findall(text):
        count = 1 if kind.endswith("P") else max(width, 2 if pair else 1)
        found |= {f"{kind}{int(number) + i}" for i in range(count)}
    return found


def _written_and_read(instruction: Instruction) -> tuple[set[str], set[str]]:
    """Return the registers that an instruction writes, and those that it reads."""
    opcode, operands = instruction.opcode, instruction.operands.split(", ")
    guard = _names(instruction.guard, 1)
    if _NO_RESULT.match(opcode):
        return set(), _names(instruction.operands, 1) | guard
    if opcode == "PRMT" and (half := _HALF.fullmatch(instruction.operands)):
        return {half[1]}, _names(half[2], 1) | guard
    if opcode == "P2R" and (saved := _SAVED.fullmatch(instruction.operands)):
        return {saved[1]}, {f"P{i}" for i in range(7) if int(saved[2], 16) >> i & 1} | guard
    if ".WIDE" in opcode:
        sources = _names(", ".join(operands[1:-1]), 1) | _names(operands[-1], 2)
        return _names(operands[0], 2), sources | guard
    pair = bool(_PAIR.match(opcode))
    cut = _results(opcode, operands)
    width = 4 if ".128" in opcode else 2 if pair else 1
    sources = _names(", ".join(operands[cut:]), 2 if pair and not _MEMORY.match(opcode) else 1)
    return _names(", ".join(operands[:cut]), width), sources | guard


def _results(opcode: str, operands: list[str]) -> int:
    """Count the operands that are results: predicates, a register, the predicates of carries."""
    if "SETP" in opcode or "PLOP3" in opcode:
        return 2
    end = len(operands)
    first = next((i for i in range(end) if not _PREDICATE.fullmatch(operands[i])), end) + 1
    if _CARRIES.match(opcode):
        return next((i for i in range(first, end) if not _PREDICATE.fullmatch(operands[i])), end)
    return first
