"""Waits end: late and dying ranks, eager and in graphs, overlap, recovery, the watchdog."""

from __future__ import annotations

import os
import signal
import time

import pytest
import torch

import worldline
from tests.gpu.places import needs_gpus, places
from tests.gpu.ranks import captured, differs, numbers
from worldline import CollectiveTimeout, LaneOverlap, World
from worldline.kernels.registry import algorithms

DEADLINE = 1.0
CALLS = 100
NAMES = tuple(row.name for row in algorithms("all_reduce"))


def late_rank(world: World, name: str) -> dict[str, object]:
    """Let the last rank stay away, then come back, recover and go on."""
    inputs = [numbers(name, rank, 3000, torch.float32) for rank in range(world.size)]
    mine = inputs[world.rank].to(world.device)
    exact = not differs(world.all_reduce(mine, algorithm=name), inputs)
    late, report = world.size - 1, {"exact": exact}
    if world.rank != late:
        started = time.monotonic()
        lost = world.all_reduce(mine, algorithm=name)
        try:
            world.synchronize()
        except CollectiveTimeout as error:
            report |= {"peer": error.peer, "seconds": time.monotonic() - started}
        report["nan"] = bool(torch.isnan(lost).all())
        try:
            world.all_reduce(mine, algorithm=name)
        except CollectiveTimeout:
            report["again"] = True
    world.recover(timeout=30)  # The late rank is here before the others' deadline.
    report["after"] = not differs(world.all_reduce(mine, algorithm=name), inputs)
    world.synchronize()
    return report


def slow_rank(world: World, name: str) -> dict[str, object]:
    """Let the last rank sleep before each of many calls, which its peers have launched at once."""
    inputs = [numbers(name, rank, 3000, torch.float32) for rank in range(world.size)]
    mine = inputs[world.rank].to(world.device)
    world.all_reduce(mine, algorithm=name)
    world.synchronize()
    started = time.monotonic()
    outputs = []
    for _ in range(4):
        if world.rank == world.size - 1:
            time.sleep(0.4 * DEADLINE)
        outputs.append(world.all_reduce(mine, algorithm=name))
    world.synchronize()
    seconds = time.monotonic() - started
    return {"exact": not any(differs(y, inputs) for y in outputs), "seconds": seconds}


def late_in_a_graph(world: World) -> dict[str, object]:
    """Replay 100 captured calls on all ranks but the last."""
    x = torch.ones(3000, device=world.device)
    world.all_reduce(x)
    graph, kept = captured(world, lambda: [world.all_reduce(x) for _ in range(CALLS)])
    graph.replay()
    world.synchronize()
    exact = all(bool((y == world.size).all()) for y in kept)
    if world.rank == world.size - 1:
        return {"exact": exact}
    started = time.monotonic()
    graph.replay()
    torch.cuda.current_stream().synchronize()
    seconds = time.monotonic() - started
    try:
        world.synchronize()
    except CollectiveTimeout as error:
        peer = error.peer
    nan = all(bool(torch.isnan(y).all()) for y in kept)
    return {"exact": exact, "seconds": seconds, "peer": peer, "nan": nan}


def overlap(world: World) -> str:
    """Run two operations of one lane on two streams that nothing orders."""
    x = torch.ones(100_000, device=world.device)
    world.all_reduce(x)
    world.synchronize()
    streams = [torch.cuda.Stream() for _ in range(2)]
    if world.rank == world.size - 1:
        time.sleep(0.5)  # The others' first operation waits for this rank's, and so is running.
    try:
        for stream in streams:
            with torch.cuda.stream(stream):
                world.all_reduce(x)
        for stream in streams:
            stream.synchronize()
        world.synchronize()
        # A rank whose own operations did not overlap hears of it by its next.
        world.all_reduce(x)
        world.synchronize()
    except LaneOverlap as error:
        return str(error)
    except CollectiveTimeout:
        return "timeout"
    return "nothing"


def die(world: World, in_graph: bool) -> dict[str, object]:
    """Let rank 1 be killed in the middle of a run; the survivors end and make a new world."""
    x = torch.ones(3000, device=world.device)
    world.all_reduce(x)
    graph, kept = captured(world, lambda: [world.all_reduce(x) for _ in range(CALLS)])
    world.barrier()
    if world.rank == 1:
        for _ in range(3):
            graph.replay()
        torch.cuda.synchronize()
        os.kill(os.getpid(), signal.SIGKILL)
    started = time.monotonic()
    outputs: list[torch.Tensor] = []
    try:
        while True:
            if in_graph:
                graph.replay()
                torch.cuda.synchronize()
                outputs = kept
                world.lane.check()
            else:
                for _ in range(CALLS):
                    outputs = [world.all_reduce(x)]
                torch.cuda.synchronize()
    except CollectiveTimeout as error:
        peer, seconds = error.peer, time.monotonic() - started
    torch.cuda.synchronize()
    values = torch.cat([y.flatten() for y in outputs])
    partial = bool(((values != world.size) & ~torch.isnan(values)).any())
    nan = bool(torch.isnan(outputs[-1]).all())
    world.close()
    with worldline.init(ranks=[r for r in range(world.size) if r != peer]) as smaller:
        alone = smaller.all_reduce(x)
        smaller.synchronize()
        worked = bool((alone == smaller.size).all())
    return {"peer": peer, "seconds": seconds, "nan": nan, "partial": partial, "worked": worked}


def wait_for_the_watchdog(world: World) -> str:
    """Replay while a peer stays away, and make no call of Worldline's."""
    x = torch.ones(100, device=world.device)
    world.all_reduce(x)
    graph, _ = captured(world, lambda: world.all_reduce(x))
    world.barrier()
    if world.rank == 0:
        graph.replay()
    time.sleep(10)
    return "still here"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("provider", "ranks"), places(loopback=(3,)))
def test_recovery_after_a_late_rank(provider: str, ranks: int, name: str) -> None:
    reports = worldline.spawn(late_rank, ranks, (name,), provider=provider, deadline=DEADLINE)
    for report in reports:
        assert report["exact"]
        assert report["after"]
    for report in reports[:-1]:
        assert report["peer"] == ranks - 1
        assert report["nan"]
        assert report["again"]
        assert DEADLINE <= report["seconds"] < DEADLINE + 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("provider", "ranks"), places(loopback=(3,)))
def test_a_rank_slow_within_the_deadline_does_no_harm(provider: str, ranks: int, name: str) -> None:
    reports = worldline.spawn(slow_rank, ranks, (name,), provider=provider, deadline=DEADLINE)
    for report in reports:
        assert report["exact"]
        # Each wait has a deadline of its own: together they have taken longer.
        assert report["seconds"] > DEADLINE


@pytest.mark.parametrize(("provider", "ranks"), places(loopback=(2, 4)))
def test_a_graph_costs_one_deadline(provider: str, ranks: int) -> None:
    reports = worldline.spawn(late_in_a_graph, ranks, provider=provider, deadline=DEADLINE)
    assert all(report["exact"] for report in reports)
    for report in reports[:-1]:
        assert DEADLINE <= report["seconds"] < DEADLINE + 1
        assert report["peer"] == ranks - 1
        assert report["nan"]


@pytest.mark.parametrize(("provider", "ranks"), places())
def test_overlapping_use_of_a_lane_is_found(provider: str, ranks: int) -> None:
    messages = worldline.spawn(overlap, ranks, provider=provider, deadline=5.0)
    assert any("ran two operations of lane 0 at once" in message for message in messages)
    assert "nothing" not in messages


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize(("provider", "ranks"), [pytest.param("torch", 2, marks=needs_gpus)])
def test_a_rank_is_killed(provider: str, ranks: int, in_graph: bool) -> None:
    outcomes = worldline.run_ranks(die, ranks, (in_graph,), provider=provider, deadline=DEADLINE)
    assert "SIGKILL" in (outcomes[1].failure or "")
    assert outcomes[0].failure is None, outcomes[0].failure
    report = outcomes[0].value
    assert report["peer"] == 1
    assert report["seconds"] < DEADLINE + 2
    assert report["nan"]
    assert not report["partial"]
    assert report["worked"]


@pytest.mark.parametrize(("provider", "ranks"), [pytest.param("torch", 2, marks=needs_gpus)])
def test_the_watchdog_ends_the_process(provider: str, ranks: int) -> None:
    outcomes = worldline.run_ranks(
        wait_for_the_watchdog, ranks, provider=provider, deadline=DEADLINE, on_timeout="abort"
    )
    assert "SIGABRT" in (outcomes[0].failure or "")
