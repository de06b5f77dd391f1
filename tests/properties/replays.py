"""Captured calls replayed with fresh inputs, amid eager ones, in any order.

On one GPU all ranks share the engine that copies, and a copy that waits for its rank's kernel would
hold up the others': what moves while kernels may wait is moved by kernels.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tests.gpu.ranks import captured
from tests.properties.calls import Call, dawdle, prepare, settle
from tests.properties.plan import Case
from tests.properties.values import words
from tests.properties.worlds import Setup
from worldline import World

_OF_A_ROW = 3
_ROUNDS = 6


@dataclass
class _Replayed:
    """A call that is captured once and made in every round.

    Parameters
    ----------
    held : Call
        The call, whose tensors the graph knows.
    rounds : list of Call
        One to a round, whose tensors are moved into the call's and, after it, back.
    results : list of Tensor
        Where the rounds' results are kept.
    """

    held: Call
    rounds: list[Call]
    results: list[torch.Tensor | None]
    graph: torch.cuda.CUDAGraph | None = None
    kept: torch.Tensor | None = None

    def capture(self) -> None:
        """Capture the call; collective."""
        self.graph, self.kept = captured(self.held.world, self.held.run)

    def run(self, turn: int, replay: bool) -> None:
        """Make a round's call, as a replay or eagerly."""
        inside, outside = self.held.tensors, self.rounds[turn].tensors
        for held, fresh in zip(inside.pieces, outside.pieces, strict=True):
            _move(fresh.now, held.now)
        if replay and self.graph is not None:
            self.graph.replay()
            result = self.kept
        else:
            result = self.held.run()
        for held, fresh in zip(inside.pieces, outside.pieces, strict=True):
            _move(held.now, fresh.now)
        if outside.out is not None and result is inside.out:
            self.results[turn] = outside.out
        elif result is not None:
            kept = self.results[turn]
            assert kept is not None
            _move(result, kept)

    def faults(self) -> list[str]:
        """Compare every round, once no rank's kernel runs any more."""
        return [
            f"replay round {turn}: {fault}"
            for turn, (made, result) in enumerate(zip(self.rounds, self.results, strict=True))
            for fault in made.faults(result)
        ]


def _move(source: torch.Tensor, target: torch.Tensor) -> None:
    torch.bitwise_or(words(source), 0, out=words(target))


def chosen(cases: Sequence[tuple[int, Case]]) -> list[tuple[int, Case]]:
    """Choose a few cases of every row."""
    taken: dict[str, list[tuple[int, Case]]] = {}
    for number, case in cases:
        of_row = taken.setdefault(f"{case.collective} {case.row}", [])
        if case.count and len(of_row) < _OF_A_ROW:
            of_row.append((number, case))
    return [numbered for of_row in taken.values() for numbered in of_row]


def check_replays(world: World, setup: Setup, cases: Sequence[tuple[int, Case]]) -> list[str]:
    """Capture every case, then make all rounds in a random order; return what was wrong."""
    replayed = []
    for number, case in cases:
        rounds = [prepare(world, setup, number, case, 1 + turn) for turn in range(_ROUNDS)]
        totals = [made.tensors.total for made in rounds]
        results = [
            None if total is None else torch.empty_like(total, device=world.device)
            for total in totals
        ]
        replayed.append(_Replayed(prepare(world, setup, number, case), rounds, results))
    settle(world)
    for one in replayed:
        one.held.run()  # A capture loads nothing.
    settle(world)
    for one in replayed:
        one.capture()
    settle(world)
    order = [(one, turn) for one in replayed for turn in range(_ROUNDS)]
    random.Random(f"{setup} replays").shuffle(order)
    # Each rank for itself: to its peers a replay is no other than an eager call.
    own = random.Random(f"{setup} replays, rank {world.rank}")
    for one, turn in order:
        if own.random() < 0.1:
            dawdle(world)
        one.run(turn, replay=own.random() < 0.6)
    settle(world)
    return [fault for one in replayed for fault in one.faults()]
