"""A fork of a rank is no rank: its calls are refused, and what it does touches nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

import worldline
from worldline.plans import Plans


def in_a_fork(work: Callable[[], bool]) -> bool:
    """Run something in a fork of this process; whether it returned true."""
    child = os.fork()
    if not child:
        right = False
        try:
            right = work()
        finally:
            os._exit(0 if right else 1)
    return os.waitpid(child, 0)[1] == 0


def call_in_a_fork(world: Any) -> list[Any]:
    """Let a fork of rank 0 call everything and close; the ranks' own calls stay right."""
    x = torch.full((4,), 1.0 + world.rank)
    found: list[Any] = [world.all_reduce(x)[0].item()]

    def refused() -> bool:
        calls = (
            lambda: world.all_reduce(x),
            lambda: world.all_gather(x),
            world.barrier,
            world.synchronize,
            world.recover,
        )
        for call in calls:
            try:
                call()
                return False
            except worldline.WorldClosed as error:
                if f"process {os.getppid()}" not in str(error):
                    return False
        world.close()
        return True

    if world.rank == 0:
        found.append(in_a_fork(refused))
    return [*found, *(world.all_reduce(scale * x)[0].item() for scale in (10, 100))]


def test_a_fork_calls_in_vain() -> None:
    first, second = worldline.spawn(call_in_a_fork, 2, deadline=20.0, timeout=60)
    assert first == [3.0, True, 30.0, 300.0]
    assert second == [3.0, 30.0, 300.0]


def plan_in_a_fork(world: Any) -> list[bool]:
    """Ask for the fast path in a fork, and here."""
    x, options = torch.ones(8), ("all_reduce", "sum", None, None, 0)
    plan = SimpleNamespace(run=lambda source, target: None)
    plans = Plans(SimpleNamespace())  # type: ignore[arg-type]
    plans._known[plans._key(x, options)] = (plan, SimpleNamespace(alive=True))  # type: ignore
    forgot = in_a_fork(lambda: plans.again(x, options) is None)
    return [forgot, plans.again(x, options) is not None]


def test_a_fork_has_no_fast_path() -> None:
    assert worldline.spawn(plan_in_a_fork, 1, timeout=60) == [[True, True]]


def come_out_of_a_fork(world: Any, how: str) -> str:
    """Let a fork of the rank leave the function before the rank does."""
    child = os.fork()
    if not child:
        if how == "raise":
            raise KeyError("of a fork")
        return "of a fork"
    os.waitpid(child, 0)
    return "of the rank"


def test_the_outcome_is_the_ranks() -> None:
    for how in ("raise", "return"):
        assert worldline.spawn(come_out_of_a_fork, 1, (how,), timeout=60) == ["of the rank"]
