"""What GPU tests' ranks share: inputs, comparison with the reference, capture."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import torch

from worldline import World
from worldline.kernels import reference
from worldline.kernels.registry import algorithm

T = TypeVar("T")
_capturing = threading.Lock()
_graphs: list[torch.cuda.CUDAGraph] = []


def wide_range(rank: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Return a rank's input: magnitudes over many octaves, so that order and rounding show."""
    generator = torch.Generator().manual_seed(100 * rank + count)
    x = torch.randn(count, generator=generator)
    return (x * 2.0 ** torch.randint(-8, 9, (count,), generator=generator)).to(dtype)


def whole(rank: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Return a rank's input of small whole numbers, whose sums are exact in any order."""
    generator = torch.Generator().manual_seed(100 * rank + count)
    return torch.randint(-128, 129, (count,), generator=generator).to(dtype)


def numbers(name: str, rank: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Return a rank's input for a row: order shows in its sums, where the row promises one."""
    draw = wide_range if algorithm("all_reduce", name).bitwise else whole
    return draw(rank, count, dtype)


def same(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Compare bits with a tensor on the CPU.

    On one GPU the ranks' copies to the host share a queue: none may be in it that waits for a
    kernel.
    """
    torch.cuda.current_stream().synchronize()
    return torch.equal(reference.bits(found.cpu()), reference.bits(expected))


def differs(found: torch.Tensor, inputs: list[torch.Tensor]) -> bool:
    """Say whether a result's bits are not the reference's."""
    return not same(found, reference.all_reduce(inputs))


def captured(world: World, call: Callable[[], T]) -> tuple[torch.cuda.CUDAGraph, T]:
    """Capture a call in a graph; return it and what the call returned. Collective.

    Not by ``torch.cuda.graph``, which waits for the whole device first: for other ranks' kernels,
    which may wait for this one's. And one rank at a time: torch's books on graphs are not for
    several threads, neither when one begins nor when one is dropped. The ranks meet on the host
    before any replays its graph: making one may wait for the device as well.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), _capturing:
        graph = torch.cuda.CUDAGraph()
        _graphs.append(graph)
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            result = call()
        finally:
            graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    meet(world)
    return graph, result


def meet(world: World) -> None:
    """Wait on the host until every rank has come."""
    key = f"met/{world.store.add(f'met by {world.rank}', 1)}"
    if world.store.add(key, 1) == world.size:
        world.store.set(f"{key} by all", "")
    world.store.wait([f"{key} by all"])
