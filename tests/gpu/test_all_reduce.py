"""All-reduce on GPUs: the reference's bits, for every algorithm, dtype, count and alignment."""

from __future__ import annotations

import functools
import itertools
import random
import threading

import pytest
import torch

import worldline
from tests.gpu.places import places
from tests.gpu.ranks import captured, differs, numbers, same, wide_range
from tests.laptop.all_reduce_cases import random_bits, random_input
from worldline import Launch, World
from worldline.kernels import reference
from worldline.kernels.numerics import COMMON, DTYPES, OPS
from worldline.kernels.registry import algorithm, algorithms

NAMES = tuple(row.name for row in algorithms("all_reduce"))
BITWISE = tuple(row.name for row in algorithms("all_reduce") if row.bitwise)
WRAP = -5


def every_pattern(rank: int, dtype: torch.dtype) -> torch.Tensor:
    """Return all bit patterns of a 16-bit dtype, shifted by rank so that all kinds meet.

    Then runs of ones, as long as slots and at every place in them, some on one rank alone.
    """
    every = torch.arange(-(2**15), 2**15).to(torch.int16).roll(12345 * rank)
    runs = torch.zeros(1003, dtype=torch.int16)
    for start in range(0, 900, 19):
        if start % 3 != rank % 3:
            runs[start : start + 2 + start % 17] = -1
    runs[-5:] = -1
    return torch.cat([every, runs]).view(dtype)


def check_points(world: World) -> list[str]:
    """Run every algorithm on many counts and alignments; return what was wrong."""
    wrong = []
    for name, dtype in itertools.product(NAMES, COMMON):
        if world.size > 3 and not name.endswith("_cuda") and dtype != torch.bfloat16:
            continue  # Triton compiles for every rank, one after another where they are threads.
        for count, offset in itertools.product((0, 1, 7, 64, 1000, 20001), (0, 1)):
            inputs = [numbers(name, rank, count, dtype) for rank in range(world.size)]
            room = torch.empty(count + offset, dtype=dtype, device=world.device)
            mine = room[offset:].copy_(inputs[world.rank])
            if differs(world.all_reduce(mine, algorithm=name), inputs):
                wrong.append(f"{name} {dtype} {count} +{offset}")
            if differs(world.all_reduce(mine, out=mine, algorithm=name), inputs):
                wrong.append(f"{name} {dtype} {count} +{offset} in place")
    for name, dtype in itertools.product(BITWISE, (torch.float16, torch.bfloat16)):
        inputs = [every_pattern(rank, dtype) for rank in range(world.size)]
        if differs(world.all_reduce(inputs[world.rank].to(world.device), algorithm=name), inputs):
            wrong.append(f"{name} {dtype} every pattern")
    world.synchronize()
    return wrong


def every_number(rank: int, dtype: torch.dtype) -> torch.Tensor:
    """Return any bits, then ordinary numbers; their count is no multiple of an item."""
    return torch.cat([random_bits(rank, 5003, dtype), random_input(rank, 5000, dtype)])


def check_numbers(world: World) -> list[str]:
    """Run CUDA's rows on sums of every dtype, on every op of two, and on sums of a factor."""
    asked: list[tuple[torch.dtype, str, float | None]] = [(dtype, "sum", None) for dtype in DTYPES]
    asked += [(dtype, op, None) for dtype in (torch.bfloat16, torch.int8) for op in OPS]
    asked += [(dtype, "sum", 1 / 3) for dtype in (torch.float32, torch.float8_e4m3fn)]
    asked += [(torch.float32, "avg", None), (torch.float64, "max", None)]
    wrong = []
    rows = [row for row in algorithms("all_reduce") if row.backend == "cuda" and row.bitwise]
    for dtype, op, scale in asked:
        inputs = [every_number(rank, dtype) for rank in range(world.size)]
        expected = reference.all_reduce(inputs, op, scale)
        mine = inputs[world.rank].to(world.device)
        # Triton compiles for every rank, one after another where they are threads.
        triton = [algorithm("all_reduce", "ll_one_shot")] if op in ("avg", "prod") or scale else []
        for row in [*rows, *triton]:
            if row.supports(world.request("all_reduce", mine, op)) is not None:
                continue
            for offset in (0, 1):
                x, want = mine[offset:], expected[offset:]
                if not same(world.all_reduce(x, op=op, scale=scale, algorithm=row.name), want):
                    wrong.append(f"{row.name} {dtype} {op} {scale} +{offset}")
    world.synchronize()
    return wrong


def check_interleaving(world: World, calls: int, wrap: bool) -> list[str]:
    """Mix sizes, algorithms, launches and delays, eager and in graphs; return what was wrong."""
    if wrap:
        world.lane.set_epoch(WRAP)
        world.barrier()
    rng, delays = random.Random(calls), random.Random(world.rank)
    points = []
    for _ in range(24):
        name, dtype = rng.choice(NAMES), rng.choice(COMMON)
        shape = Launch(rng.choice((128, 256)), rng.choice((1, 3, 17, 512)), rng.choice((0, 1)))
        count = rng.choice((1, 5, 513, 4096, 33333, 300000))
        inputs = [numbers(name, rank, count, dtype) for rank in range(world.size)]
        mine, expected = inputs[world.rank].to(world.device), reference.all_reduce(inputs)
        world.all_reduce(mine, algorithm=name, launch=shape)
        points.append((name, shape, expected, mine))
    world.synchronize()
    graphs: dict[int, tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}
    wrong = []
    for call in range(calls):
        index = rng.randrange(len(points))
        name, shape, expected, mine = points[index]
        if delays.random() < 0.1:
            torch.cuda._sleep(delays.randrange(400_000))
        if rng.random() < 0.5:
            if index not in graphs and rng.random() < 0.3:
                graphs[index] = captured(
                    world, functools.partial(world.all_reduce, mine, algorithm=name, launch=shape)
                )
            if index in graphs:
                graph, kept = graphs[index]
                kept.zero_()
                graph.replay()
                if not same(kept, expected):
                    wrong.append(f"call {call}: graph {name} {shape} {mine.numel()}")
                continue
        if not same(world.all_reduce(mine, algorithm=name, launch=shape), expected):
            wrong.append(f"call {call}: {name} {shape} {mine.numel()}")
    world.synchronize()
    return wrong


def on_a_new_thread(world: World) -> bool:
    """Plan and launch on a thread that has not used CUDA, as an engine's worker might."""
    inputs = [wide_range(rank, 4321, torch.float32) for rank in range(world.size)]
    mine = inputs[world.rank].to(world.device)
    world.synchronize()
    found: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: found.append(world.all_reduce(mine)))
    thread.start()
    thread.join()
    world.synchronize()
    return not differs(found[0], inputs)


@pytest.mark.parametrize(("provider", "ranks"), places(loopback=()))
def test_a_thread_that_has_not_used_cuda(provider: str, ranks: int) -> None:
    assert all(worldline.spawn(on_a_new_thread, ranks, provider=provider, deadline=60))


@pytest.mark.parametrize(("provider", "ranks"), places(loopback=range(1, 9)))
def test_bits(provider: str, ranks: int) -> None:
    for wrong in worldline.spawn(check_points, ranks, provider=provider, deadline=60):
        assert wrong == []


@pytest.mark.parametrize(("provider", "ranks"), places(loopback=(1, 2, 3)))
def test_every_dtype_and_op(provider: str, ranks: int) -> None:
    for wrong in worldline.spawn(check_numbers, ranks, provider=provider, deadline=180):
        assert wrong == []


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize(("provider", "ranks"), places(loopback=(2, 3)))
def test_interleaved_calls(provider: str, ranks: int, wrap: bool) -> None:
    calls = 1000 if ranks == 2 else 200
    for wrong in worldline.spawn(
        check_interleaving,
        ranks,
        (calls, wrap),
        provider=provider,
        arena_bytes=4 << 20,
        deadline=60,
    ):
        assert wrong == []
