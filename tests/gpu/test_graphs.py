"""CUDA graphs: one captured call replayed with fresh inputs, on whatever stream, and lanes."""

from __future__ import annotations

import pytest
import torch

import worldline
from tests.gpu.places import places
from tests.gpu.ranks import captured, differs, numbers
from worldline import UnsupportedError, World
from worldline.kernels.registry import algorithms

COUNT = 3000


ALGORITHMS = tuple(row.name for row in algorithms("all_reduce") if row.backend == "cuda")


def check_replays(world: World, algorithm: str, replays: int) -> list[str]:
    """Replay one captured call, on a stream other than the capture's, with fresh inputs."""
    x = torch.zeros(COUNT, dtype=torch.bfloat16, device=world.device)
    graph, kept = captured(world, lambda: world.all_reduce(x, algorithm=algorithm))
    other = torch.cuda.Stream()
    here = torch.cuda.current_stream()
    other.wait_stream(here)
    wrong = []
    for replay in range(replays):
        inputs = [numbers(algorithm, rank + replay, COUNT, x.dtype) for rank in range(world.size)]
        with torch.cuda.stream(other):
            x.copy_(inputs[world.rank])
            graph.replay()
            if differs(kept, inputs):
                wrong.append(f"replay {replay}")
    here.wait_stream(other)
    world.synchronize()
    return wrong


def check_lanes(world: World, algorithm: str) -> list[str]:
    """Run two lanes on two streams at once, unordered."""
    streams = [torch.cuda.Stream() for _ in range(2)]
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
    wrong = []
    for call in range(50):
        inputs = [
            [
                numbers(algorithm, 7 * call + rank + lane, COUNT, torch.float32)
                for rank in range(world.size)
            ]
            for lane in range(2)
        ]
        mine = [inputs[lane][world.rank].to(world.device) for lane in range(2)]
        torch.cuda.current_stream().synchronize()
        found = []
        for lane in range(2) if world.rank % 2 else (1, 0):
            with torch.cuda.stream(streams[lane]):
                y = world.all_reduce(mine[lane], lane=lane, algorithm=algorithm)
                found.append((lane, y))
        for stream in streams:
            stream.synchronize()
        wrong += [f"call {call} lane {lane}" for lane, y in found if differs(y, inputs[lane])]
    return wrong


def check_unloaded(world: World) -> str:
    """Ask inside a capture for a Triton kernel that nothing has loaded."""
    x = torch.zeros(COUNT, device=world.device)
    try:
        captured(world, lambda: world.all_reduce(x, algorithm="ll_one_shot"))
    except UnsupportedError as error:
        return str(error)
    return "captured"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("provider", "ranks"), places())
def test_a_captured_call_replayed(provider: str, ranks: int, algorithm: str) -> None:
    for wrong in worldline.spawn(
        check_replays, ranks, (algorithm, 1000), provider=provider, deadline=60
    ):
        assert wrong == []


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("provider", "ranks"), places(loopback=(2, 4)))
def test_lanes_may_overlap(provider: str, ranks: int, algorithm: str) -> None:
    for wrong in worldline.spawn(
        check_lanes, ranks, (algorithm,), provider=provider, lanes=2, deadline=60
    ):
        assert wrong == []


@pytest.mark.parametrize(("provider", "ranks"), places())
def test_a_kernel_is_not_loaded_inside_a_capture(provider: str, ranks: int) -> None:
    for message in worldline.spawn(check_unloaded, ranks, provider=provider, deadline=60):
        assert "before the capture" in message
