"""Every algorithm's bits equal the reference's, on every rank, for any shape."""

from __future__ import annotations

import itertools
import mmap
import platform
from typing import Any

import pytest
import torch

import worldline
from tests.laptop.all_reduce_cases import (
    DTYPE_NAMES,
    Guarded,
    random_bits,
    random_input,
    same_bits,
)
from worldline.kernels import reference
from worldline.kernels.registry import algorithms
from worldline.primitives.layout import MINIMUM

NAMES = tuple(row.name for row in algorithms("all_reduce", "cpu"))


def check_matrix(world: Any, counts: tuple[int, ...], offsets: tuple[int, ...]) -> list[str]:
    """Every algorithm, dtype, count and offset, into a new tensor, a guarded one and in place."""
    faults = []
    seed = 0
    for dtype_name, count, offset in itertools.product(DTYPE_NAMES, counts, offsets):
        dtype = getattr(torch, dtype_name)
        seed += 100
        inputs = [random_input(seed + rank, count, dtype) for rank in range(world.size)]
        expected = reference.all_reduce(inputs)
        for name in NAMES:
            where = f"{name} {dtype_name} count {count} offset {offset}"
            guarded = Guarded(count, dtype, offset)
            mine = Guarded(count, dtype, offset)
            mine.view.copy_(inputs[world.rank])
            world.all_reduce(mine.view, out=guarded.view, algorithm=name)
            if not same_bits(guarded.view, expected):
                faults.append(f"{where}: bits")
            if not same_bits(mine.view, inputs[world.rank]):
                faults.append(f"{where}: input changed")
            world.all_reduce(mine.view, out=mine.view, algorithm=name)
            if not same_bits(mine.view, expected):
                faults.append(f"{where}: in place")
            if not (guarded.intact() and mine.intact()):
                faults.append(f"{where}: wrote beside the output")
    return faults


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_counts_and_alignments(ranks: int) -> None:
    counts = (0, 1, 7, 64, 1001) if ranks < 8 else (1, 7, 1001)
    offsets = (0, 1, 3) if ranks < 4 else (0, 1)
    for faults in worldline.spawn(check_matrix, ranks, (counts, offsets)):
        assert faults == []


@pytest.mark.parametrize("ranks", [1, 5, 6, 7])
def test_uneven_worlds(ranks: int) -> None:
    for faults in worldline.spawn(check_matrix, ranks, ((3, 130), (0,))):
        assert faults == []


def check_views(world: Any) -> list[str]:
    """Strided inputs and outputs, expanded inputs, overlapping input and output."""
    faults = []
    for name in NAMES:
        wide = [random_input(rank, 4 * 18, torch.float32).view(4, 18) for rank in range(world.size)]
        expected = reference.all_reduce([x[:, ::3] for x in wide])
        mine = wide[world.rank].clone()
        if not same_bits(world.all_reduce(mine[:, ::3], algorithm=name), expected):
            faults.append(f"{name}: strided input")
        world.all_reduce(mine[:, ::3], out=mine[:, ::3], algorithm=name)
        untouched = wide[world.rank].clone()
        untouched[:, ::3] = expected
        if not same_bits(mine, untouched):
            faults.append(f"{name}: strided in place")
        turned = world.all_reduce(wide[world.rank].t(), algorithm=name)
        if not same_bits(turned, reference.all_reduce([x.t() for x in wide])):
            faults.append(f"{name}: transposed")
        row = wide[world.rank][:1].expand(3, 18)
        if not same_bits(
            world.all_reduce(row, algorithm=name),
            reference.all_reduce([x[:1].expand(3, 18) for x in wide]),
        ):
            faults.append(f"{name}: expanded")
        flat = wide[world.rank].clone().flatten()
        world.all_reduce(flat[:40], out=flat[5:45], algorithm=name)
        if not same_bits(flat[5:45], reference.all_reduce([x.flatten()[:40] for x in wide])):
            faults.append(f"{name}: shifted overlap")
        scalar = world.all_reduce(torch.tensor(1.5 + world.rank), algorithm=name)
        if scalar.shape != () or scalar.item() != sum(1.5 + r for r in range(world.size)):
            faults.append(f"{name}: scalar")
    return faults


def test_views() -> None:
    for faults in worldline.spawn(check_views, 3):
        assert faults == []


def check_patterns(world: Any) -> list[str]:
    """All 65,536 patterns of 16 bits and a fuzz of 32 from every rank, and lone specials."""
    faults = []
    for dtype_name, name in itertools.product(DTYPE_NAMES, NAMES):
        dtype = getattr(torch, dtype_name)
        if dtype.itemsize == 2:
            every = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
            inputs = [every.roll(rank * 12345) for rank in range(world.size)]
        else:
            inputs = [random_bits(rank, 1 << 15, dtype) for rank in range(world.size)]
        result = world.all_reduce(inputs[world.rank], algorithm=name)
        if not same_bits(result, reference.all_reduce(inputs)):
            faults.append(f"{name} {dtype_name}: every pattern")
        zeros = torch.full((5,), -0.0, dtype=dtype)
        if not same_bits(world.all_reduce(zeros, algorithm=name), zeros):
            faults.append(f"{name} {dtype_name}: -0.0")
        smallest = torch.full((3,), 1, dtype=torch.int32 if dtype.itemsize == 4 else torch.int16)
        tiny = smallest.view(dtype) if world.rank == 0 else torch.zeros(3, dtype=dtype)
        if not same_bits(world.all_reduce(tiny, algorithm=name), smallest.view(dtype)):
            faults.append(f"{name} {dtype_name}: subnormal")
        infinite = torch.full((3,), float("inf") * (-1) ** world.rank, dtype=dtype)
        nan = world.all_reduce(infinite, algorithm=name)
        if set(reference.bits(nan).tolist()) != {reference.CANONICAL_NAN[dtype]}:
            faults.append(f"{name} {dtype_name}: inf - inf")
    return faults


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_bit_pattern(ranks: int) -> None:
    for faults in worldline.spawn(check_patterns, ranks):
        if ranks == 1:  # one rank has no opposite infinity
            faults = [fault for fault in faults if "inf - inf" not in fault]
        assert faults == []


def check_chunks(world: Any) -> list[str]:
    """More than the arena holds, with counts that end inside a slot."""
    faults = []
    for name, dtype_name in itertools.product(NAMES, DTYPE_NAMES):
        dtype = getattr(torch, dtype_name)
        inputs = [random_input(rank, 30_011, dtype) for rank in range(world.size)]
        explanation = world.explain("all_reduce", inputs[0])
        if explanation.chunks < 3:
            faults.append(f"{explanation.chunks} chunk(s) only")
        result = world.all_reduce(inputs[world.rank], algorithm=name)
        if not same_bits(result, reference.all_reduce(inputs)):
            faults.append(f"{name} {dtype_name}")
    return faults


def test_larger_than_the_arena() -> None:
    for faults in worldline.spawn(check_chunks, 3, arena_bytes=MINIMUM):
        assert faults == []


def check_low_addresses(world: Any) -> list[str]:
    """Tensors below 2 GiB, where some machines have their heap: addresses that fit 32 bits."""
    size = 1 << 16
    map_32bit = 0x40
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | map_32bit)
    x = torch.frombuffer(memory, dtype=torch.float32)
    assert x.data_ptr() < 2**31
    faults = []
    for name in NAMES:
        inputs = [random_input(rank, x.numel(), x.dtype) for rank in range(world.size)]
        x.copy_(inputs[world.rank])
        world.all_reduce(x, out=x, algorithm=name)
        if not same_bits(x, reference.all_reduce(inputs)):
            faults.append(name)
    return faults


@pytest.mark.skipif(platform.machine() != "x86_64", reason="MAP_32BIT is x86-64's")
def test_low_addresses() -> None:
    for faults in worldline.spawn(check_low_addresses, 2):
        assert faults == []
