"""No wait is forever: deadlines, the dead lane, recovery, and a world of the survivors."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
import torch

import worldline
from tests.laptop.all_reduce_cases import same_bits
from worldline.kernels import reference
from worldline.kernels.registry import algorithms
from worldline.launch import Outcome, run_ranks

NAMES = tuple(row.name for row in algorithms("all_reduce", "cpu"))
DEADLINE = 1.5


def outlive(world: Any, victim: int, algorithm: str) -> dict[str, Any]:
    """Lose one rank in the middle of a run; what each survivor saw of it."""
    x = torch.full((3000,), float(world.rank + 1))
    for _ in range(3):
        world.all_reduce(x, algorithm=algorithm)
    if world.rank == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    out = torch.zeros(3000)
    started = time.monotonic()
    try:
        for _ in range(100):
            world.all_reduce(x, out=out, algorithm=algorithm)
    except worldline.CollectiveTimeout as error:
        seen = {"peer": error.peer, "operation": error.operation, "text": str(error)}
    else:
        return {"text": "100 calls returned without the victim"}
    seen["seconds"] = time.monotonic() - started
    seen["output is NaN"] = bool(torch.isnan(out).all())
    started = time.monotonic()
    try:
        world.all_reduce(x)
    except worldline.CollectiveTimeout as error:
        seen["later peer"] = error.peer
    seen["later seconds"] = time.monotonic() - started
    try:
        world.recover(timeout=0.5)
    except worldline.RendezvousTimeout as error:
        seen["recover misses"] = error.missing
    world.close()
    survivors = [rank for rank in range(world.size) if rank != victim]
    with worldline.init(ranks=survivors, timeout=20) as smaller:
        inputs = [torch.full((100,), float(rank)) for rank in survivors]
        y = smaller.all_reduce(inputs[smaller.rank])
        seen["survivors agree"] = same_bits(y, reference.all_reduce(inputs))
    return seen


@pytest.mark.parametrize(
    ("ranks", "victim", "algorithm"),
    [
        (2, 0, "ll_one_shot"),
        (4, 1, "ll_one_shot"),
        (4, 2, "ll_two_shot"),
        (3, 0, "barrier_one_shot"),
    ],
)
def test_survivors_of_a_killed_rank(ranks: int, victim: int, algorithm: str) -> None:
    outcomes = run_ranks(outlive, ranks, (victim, algorithm), timeout=90, deadline=DEADLINE)
    assert "SIGKILL" in str(outcomes[victim].failure)
    for outcome in outcomes:
        if outcome.rank == victim:
            continue
        assert outcome.failure is None, outcome.failure
        seen = outcome.value
        assert seen["peer"] == victim, seen["text"]
        assert seen["operation"] == "all_reduce"
        assert seen["seconds"] < DEADLINE + 1
        assert seen["output is NaN"]
        assert seen["later peer"] == victim
        assert seen["later seconds"] < 1
        assert seen["recover misses"] == (victim,)
        assert seen["survivors agree"]


def come_late(world: Any, algorithm: str) -> dict[str, Any]:
    """Let rank 1 come after the deadline; all notice, all recover, and sums are right again."""
    x = torch.arange(500.0) * (world.rank + 1)
    world.all_reduce(x, algorithm=algorithm)
    if world.rank == 1:
        time.sleep(DEADLINE + 0.7)
    try:
        world.all_reduce(x, algorithm=algorithm)
        peer = None
    except worldline.CollectiveTimeout as error:
        peer = error.peer
    world.recover(timeout=20)
    inputs = [torch.arange(500.0) * (rank + 1) for rank in range(world.size)]
    right = [
        same_bits(world.all_reduce(x, algorithm=name), reference.all_reduce(inputs))
        for name in NAMES
        for _ in range(3)
    ]
    return {"peer": peer, "right": all(right)}


@pytest.mark.parametrize("algorithm", NAMES)
def test_recovery_after_a_late_rank(algorithm: str) -> None:
    for value in worldline.spawn(come_late, 3, (algorithm,), timeout=90, deadline=DEADLINE):
        assert value == {"peer": 1, "right": True}


def be_slow(world: Any, naps: int, nap: float) -> list[str]:
    """Let rank 1 come late to calls of every row, within the deadline; name what was wrong."""
    wrong = []
    for name in NAMES:
        for number in range(naps):
            inputs = [torch.arange(700.0) * (rank + number + 0.1) for rank in range(world.size)]
            if world.rank == 1:
                time.sleep(nap)
            y = world.all_reduce(inputs[world.rank], algorithm=name)
            if not same_bits(y, reference.all_reduce(inputs)):
                wrong.append(f"{name}, call {number}")
    return wrong


def test_a_rank_slow_within_the_deadline_does_no_harm() -> None:
    nap = 0.25
    # Each wait has a deadline of its own: together they may take longer.
    assert 2 * len(NAMES) * nap > DEADLINE
    assert worldline.spawn(be_slow, 3, (2, nap), timeout=90, deadline=DEADLINE) == [[]] * 3


def meet_late(world: Any) -> int:
    """Come to a barrier, rank 2 too late."""
    if world.rank == 2:
        time.sleep(DEADLINE + 0.7)
    try:
        world.barrier()
    except worldline.CollectiveTimeout as error:
        return error.peer
    return -1


def test_barrier_names_the_late_rank() -> None:
    assert worldline.spawn(meet_late, 3, timeout=60, deadline=DEADLINE) == [2, 2, 2]


def mismatch(world: Any) -> tuple[int, int]:
    """Rank 0 calls what nobody else calls; nobody hangs and somebody is named."""
    try:
        if world.rank == 0:
            world.barrier()
        else:
            world.all_reduce(torch.ones(8), algorithm="ll_one_shot")
    except worldline.CollectiveTimeout as error:
        return error.peer, error.reporter
    return -1, -1


def test_different_collectives_end_with_an_error() -> None:
    for peer, reporter in worldline.spawn(mismatch, 2, timeout=60, deadline=DEADLINE):
        assert {peer, reporter} == {0, 1}


def stop_without_a_word(world: Any) -> None:
    """End a rank by exit, not by an exception."""
    if world.rank == 1:
        os._exit(3)
    world.all_reduce(torch.ones(4))


def test_spawn_names_the_rank_that_ended() -> None:
    with pytest.raises(worldline.RankFailed, match=r"rank 1 failed.*exit code 3"):
        worldline.spawn(stop_without_a_word, 2, deadline=DEADLINE)


def fail(world: Any) -> None:
    """Raise on one rank."""
    if world.rank == 1:
        raise KeyError("planted")
    world.all_reduce(torch.ones(4))


def test_spawn_shows_the_traceback_of_the_rank_that_raised() -> None:
    started = time.monotonic()
    with pytest.raises(worldline.RankFailed, match="planted"):
        worldline.spawn(fail, 2)
    assert time.monotonic() - started < 20


def sleep_for_ever(world: Any) -> None:
    """Never end."""
    time.sleep(3600)


def test_spawn_timeout_ends_the_ranks() -> None:
    outcomes: list[Outcome] = run_ranks(sleep_for_ever, 2, timeout=1.0)
    assert all("did not end within" in str(outcome.failure) for outcome in outcomes)
