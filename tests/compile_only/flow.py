"""The control flow of a listing, PTX or SASS, and the questions that the rules ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Parameters
    ----------
    opcode : str
        With its modifiers, as ``LDG.E.64``.
    operands : str
        The rest of the line.
    guard : str
        The predicate that it runs under, as ``!P1``; empty if it always runs.
    """

    opcode: str
    operands: str
    guard: str = ""

    def __str__(self) -> str:
        return (
            f"{'@' + self.guard + ' ' if self.guard else ''}{self.opcode} {self.operands}".strip()
        )


Test = Callable[[Instruction], bool]


def immediate_dominators(successors: Sequence[Sequence[int]], entry: int) -> list[int | None]:
    """Return each node's immediate dominator; None where the entry does not reach it.

    The iteration of Cooper, Harvey and Kennedy over reverse postorder.
    """
    order: list[int] = []
    seen = {entry}
    stack = [(entry, iter(successors[entry]))]
    while stack:
        node, rest = stack[-1]
        following = next((n for n in rest if n not in seen), None)
        if following is None:
            order.append(node)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(successors[following])))
    number = {node: place for place, node in enumerate(order)}
    predecessors: dict[int, list[int]] = {node: [] for node in order}
    for node in order:
        for following in successors[node]:
            predecessors[following].append(node)
    dominator: list[int | None] = [None] * len(successors)
    dominator[entry] = entry

    def meet(one: int, two: int) -> int:
        while one != two:
            if number[one] > number[two]:
                one, two = two, one
            above = dominator[one]
            assert above is not None
            one = above
        return one

    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):
            known = [p for p in predecessors[node] if dominator[p] is not None]
            new = known[0]
            for other in known[1:]:
                new = meet(new, other)
            if dominator[node] != new:
                dominator[node], changed = new, True
    return dominator


@dataclass(frozen=True)
class Flow:
    """Instructions and the ways between them.

    Parameters
    ----------
    code : list of Instruction
        In the listing's order; execution starts at the first.
    successors : list of tuple of int
        Where each instruction may lead; nowhere for an exit.
    """

    code: list[Instruction]
    successors: list[tuple[int, ...]]

    @cached_property
    def live(self) -> frozenset[int]:
        """Instructions that can be reached at all: not the padding."""
        return self.after([0]) | {0}

    def find(self, test: Test) -> list[int]:
        """List the reachable instructions that pass a test."""
        return [
            i for i, instruction in enumerate(self.code) if i in self.live and test(instruction)
        ]

    def after(self, starts: Iterable[int], walls: Iterable[int] = ()) -> frozenset[int]:
        """Return what may run after one of ``starts`` without passing one of ``walls``."""
        closed = set(walls)
        reached: set[int] = set()
        stack = [following for start in starts for following in self.successors[start]]
        while stack:
            node = stack.pop()
            if node not in reached and node not in closed:
                reached.add(node)
                stack += self.successors[node]
        return frozenset(reached)

    def unseparated(self, first: Test, wall: Test, second: Test) -> list[str]:
        """List instructions ``second`` that some path reaches from a ``first`` past no ``wall``."""
        reached = self.after(self.find(first), self.find(wall))
        return [str(self.code[i]) for i in self.find(second) if i in reached]

    @cached_property
    def loops(self) -> list[frozenset[int]]:
        """Natural loops, smallest first; those with one header are one loop."""
        dominator = immediate_dominators(self.successors, 0)
        predecessors: dict[int, list[int]] = {i: [] for i in self.live}
        for node in self.live:
            for following in self.successors[node]:
                predecessors[following].append(node)

        def dominates(header: int, node: int) -> bool:
            while node != header:
                above = dominator[node]
                if above is None or above == node:
                    return False
                node = above
            return True

        bodies: dict[int, set[int]] = {}
        for node in self.live:
            for header in self.successors[node]:
                if dominates(header, node):
                    body = bodies.setdefault(header, {header})
                    stack = [node]
                    while stack:
                        member = stack.pop()
                        if member not in body:
                            body.add(member)
                            stack += predecessors[member]
        return sorted(map(frozenset, bodies.values()), key=len)

    def innermost_loop(self, node: int) -> list[Instruction]:
        """Return the body of the smallest loop around an instruction; empty if it is in none."""
        for body in self.loops:
            if node in body:
                return [self.code[i] for i in sorted(body)]
        return []

    def cycle(self, node: int) -> list[Instruction]:
        """Return what may run between two runs of an instruction; a loop may have many entries."""
        onwards = self.after([node])
        return [self.code[i] for i in sorted(onwards) if node in self.after([i])]

    @cached_property
    def _rejoins(self) -> list[int | None]:
        end = len(self.code)
        backwards: list[list[int]] = [[] for _ in range(end + 1)]
        for node in self.live:
            for following in self.successors[node] or (end,):
                backwards[following].append(node)
        return immediate_dominators(backwards, end)

    def meeting(self, branch: int) -> int | None:
        """Return where a branch's ways meet again; None where they do not."""
        meeting = self._rejoins[branch]
        return meeting if meeting is not None and meeting < len(self.code) else None

    def until_met(self, branch: int) -> frozenset[int]:
        """Return what may run from a branch until its ways have met again."""
        meeting = self.meeting(branch)
        return self.after([branch], [] if meeting is None else [meeting])

    def between(self, branch: int) -> list[Instruction]:
        """Return the instructions of :meth:`until_met`."""
        return [self.code[i] for i in self.until_met(branch)]
