"""All-gather on GPUs: bits, graphs, lanes, deadlines, more than 4 GiB."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch

import worldline
from tests.gpu.places import places
from tests.gpu.ranks import captured, meet
from worldline import CollectiveTimeout, World

DEADLINE = 1.0
CALLS = 20
ARENA = 4 << 20
"""Bytes of an arena of which a chunk is half a MB."""
COUNTS = (0, 1, 1001, 300_000, (3 << 20) + 5)
"""Bytes of an input: of no chunk, one and several."""


def values(rank: int, count: int, device: torch.device, salt: int = 0) -> torch.Tensor:
    """Return a rank's bytes, made on the device: what moves meanwhile is moved by kernels."""
    place = torch.arange(count, device=device, dtype=torch.int64)
    mixed = (place ^ (place >> 7)) * 40503 + rank * 977 + salt * 31
    return (mixed % 251).to(torch.uint8)


def settle(world: World) -> None:
    """Wait until no rank's kernel runs: only then may anything be copied to or from the host."""
    world.synchronize()
    meet(world)


def wrong_parts(world: World, found: torch.Tensor, count: int, salt: int = 0) -> list[int]:
    """Name the ranks whose part of a settled result is wrong."""
    parts = found.view(world.size, -1)
    return [
        rank
        for rank in range(world.size)
        if not torch.equal(parts[rank], values(rank, count, world.device, salt))
    ]


def gather_in_turn(world: World) -> list[str]:
    """Gather counts of no, one and several chunks, all-reduces in between, with late ranks."""
    device = world.device
    ones = torch.ones(5000, device=device)
    calls = []
    for count in COUNTS:
        for salt in range(4):
            x = values(world.rank, count, device, salt)
            out = torch.zeros(world.size, count, dtype=torch.uint8, device=device)
            if salt % 2:
                x = out[world.rank].copy_(x)  # in place
            calls.append((count, salt, x, out, torch.zeros_like(ones)))
    world.all_gather(ones)
    settle(world)
    world.all_reduce(ones)
    settle(world)
    for _, salt, x, out, total in calls:
        if (world.rank + salt) % world.size == 0:
            torch.cuda._sleep(500_000)
        world.all_reduce(ones, out=total)
        world.all_gather(x, out=out)
    settle(world)
    return [
        f"{count} bytes, turn {salt}: parts {wrong_parts(world, out, count, salt)}"
        for count, salt, _, out, total in calls
        if wrong_parts(world, out, count, salt) or not bool((total == world.size).all())
    ]


def replay_in_turn(world: World, count: int, replays: int) -> list[str]:
    """Replay captured calls with fresh inputs, eager calls in between."""
    x = values(world.rank, count, world.device)
    world.all_gather(x)
    settle(world)
    graph, kept = captured(world, lambda: [world.all_gather(x), world.all_gather(x)])
    settle(world)
    wrong = []
    for turn in range(replays):
        torch.bitwise_or(values(world.rank, count, world.device, turn), 0, out=x)
        if turn % 3 == 2:
            if (world.rank + turn) % world.size == 0:
                torch.cuda._sleep(500_000)
            found = [world.all_gather(x)]
        else:
            graph.replay()
            found = kept
        settle(world)
        if any(wrong_parts(world, y, count, turn) for y in found):
            wrong.append(f"turn {turn}")
        meet(world)
    return wrong


def gather_on_two_lanes(world: World) -> list[str]:
    """Gather on two streams that nothing orders, each with a lane."""
    count, device = 1 << 20, world.device
    streams = [torch.cuda.Stream() for _ in range(2)]
    inputs = [values(world.rank, count, device, salt) for salt in range(2)]
    for lane in range(2):
        world.all_gather(inputs[lane], lane=lane)
    settle(world)
    outs = [torch.zeros(world.size, count, dtype=torch.uint8, device=device) for _ in range(2)]
    settle(world)
    wrong = []
    for call in range(10):
        for lane in (0, 1) if world.rank % 2 else (1, 0):
            with torch.cuda.stream(streams[lane]):
                world.all_gather(inputs[lane], out=outs[lane], lane=lane)
        for stream in streams:
            stream.synchronize()
        settle(world)
        for lane, out in enumerate(outs):
            if wrong_parts(world, out, count, lane):
                wrong.append(f"call {call}, lane {lane}")
            out.zero_()
        settle(world)
    return wrong


def stay_away(world: World, in_graph: bool) -> dict[str, object]:
    """Let the last rank stay away from calls on all others; their outputs are spoilt."""
    x, late = torch.ones(1 << 20, dtype=torch.bfloat16, device=world.device), world.size - 1
    count = CALLS if in_graph else 1

    def call() -> list[torch.Tensor]:
        return [world.all_gather(x) for _ in range(count)]

    call()
    settle(world)
    run: Callable[[], object]
    if in_graph:
        graph, kept = captured(world, call)
        run = graph.replay
    else:
        kept = [torch.zeros(world.size, x.numel(), dtype=x.dtype, device=x.device)]
        run = lambda: world.all_gather(x, out=kept[0])  # noqa: E731
    settle(world)
    report: dict[str, object] = {}
    if world.rank != late:
        started = time.monotonic()
        run()
        torch.cuda.current_stream().synchronize()
        report["in time"] = DEADLINE <= time.monotonic() - started < DEADLINE + 2
        try:
            world.synchronize()
        except CollectiveTimeout as error:
            report |= {"peer": error.peer, "operation": error.operation}
        report["spoilt"] = all(bool(y.isnan().all()) for y in kept)
    world.recover(timeout=30)
    found = world.all_gather(x)
    settle(world)
    report["after"] = bool((found == 1).all())
    return report


def gather_much(world: World) -> list[int]:
    """Gather more than 4 GiB a rank."""
    count, step = (1 << 32) + 12345, 1 << 26
    device = world.device
    out = torch.zeros(world.size, count, dtype=torch.uint8, device=device)
    for start in range(0, count, step):
        part = out[world.rank, start : start + step]
        part.copy_(_much(world.rank, start, part.numel(), device))
    settle(world)
    world.all_gather(out[world.rank], out=out)
    settle(world)
    return [
        rank
        for rank in range(world.size)
        if not all(
            torch.equal(part, _much(rank, step * number, part.numel(), device))
            for number, part in enumerate(out[rank].split(step))
        )
    ]


def _much(rank: int, start: int, count: int, device: torch.device) -> torch.Tensor:
    place = torch.arange(start, start + count, device=device, dtype=torch.int64)
    return (((place ^ (place >> 13)) * 40503 + rank * 977) % 251).to(torch.uint8)


@pytest.mark.parametrize(("provider", "ranks"), places(loopback=(1, 2, 3, 8)))
def test_bits(provider: str, ranks: int) -> None:
    options = {"provider": provider, "arena_bytes": ARENA, "deadline": 60}
    assert worldline.spawn(gather_in_turn, ranks, **options) == [[]] * ranks


@pytest.mark.parametrize("count", [1001, 3 << 20])
@pytest.mark.parametrize(("provider", "ranks"), places(loopback=(2, 4)))
def test_replays(provider: str, ranks: int, count: int) -> None:
    options = {"provider": provider, "arena_bytes": ARENA, "deadline": 60}
    assert worldline.spawn(replay_in_turn, ranks, (count, 60), **options) == [[]] * ranks


@pytest.mark.parametrize(("provider", "ranks"), places(loopback=(2, 4)))
def test_lanes_may_overlap(provider: str, ranks: int) -> None:
    options = {"provider": provider, "arena_bytes": ARENA, "deadline": 60, "lanes": 2}
    assert worldline.spawn(gather_on_two_lanes, ranks, **options) == [[]] * ranks


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize(("provider", "ranks"), places(loopback=(2, 4)))
def test_a_rank_stays_away(provider: str, ranks: int, in_graph: bool) -> None:
    options = {"provider": provider, "arena_bytes": ARENA, "deadline": DEADLINE}
    *others, late = worldline.spawn(stay_away, ranks, (in_graph,), **options)
    assert late == {"after": True}
    for report in others:
        assert report == {
            "in time": True,
            "peer": ranks - 1,
            "operation": "all_gather",
            "spoilt": True,
            "after": True,
        }


@pytest.mark.parametrize(("provider", "ranks"), places())
def test_more_than_four_gibibytes(provider: str, ranks: int) -> None:
    assert worldline.spawn(gather_much, ranks, provider=provider, deadline=60) == [[]] * ranks
