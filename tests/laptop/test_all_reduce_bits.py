"""Every algorithm's bits equal the reference's: every pattern, and tensors of odd memory."""

from __future__ import annotations

import itertools
import mmap
import platform
from typing import Any

import pytest
import torch

import worldline
from tests.laptop.all_reduce_cases import DTYPE_NAMES, random_bits, random_input, same_bits
from worldline.kernels import reference
from worldline.kernels.registry import algorithm, algorithms

NAMES = tuple(row.name for row in algorithms("all_reduce", "cpu"))


def check_views(world: Any) -> list[str]:
    """Inputs whose elements share memory, and one that is a single number."""
    faults = []
    for name in NAMES:
        wide = [random_input(rank, 18, torch.float32).view(1, 18) for rank in range(world.size)]
        row = world.all_reduce(wide[world.rank].expand(3, 18), algorithm=name)
        if not same_bits(row, reference.all_reduce([x.expand(3, 18) for x in wide])):
            faults.append(f"{name}: expanded")
        scalar = world.all_reduce(torch.tensor(1.5 + world.rank), algorithm=name)
        if scalar.shape != () or scalar.item() != sum(1.5 + r for r in range(world.size)):
            faults.append(f"{name}: scalar")
    return faults


def test_views() -> None:
    for faults in worldline.spawn(check_views, 3):
        assert faults == []


def check_patterns(world: Any) -> list[str]:
    """All patterns of 8 and 16 bits and a fuzz of more from every rank."""
    faults = []
    for dtype_name, name in itertools.product(DTYPE_NAMES, NAMES):
        dtype = getattr(torch, dtype_name)
        if dtype.itemsize <= 2:
            every = torch.arange(-(2**15), 2**15).to(torch.int16)
            if dtype.itemsize == 1:
                # The upper byte of one rank's meets every lower byte of another's.
                parts = (every >> 8, every)
                inputs = [parts[rank % 2].to(torch.int8).view(dtype) for rank in range(world.size)]
            else:
                inputs = [every.view(dtype).roll(rank * 12345) for rank in range(world.size)]
        else:
            inputs = [random_bits(rank, 1 << 15, dtype) for rank in range(world.size)]
        mine = inputs[world.rank]
        if algorithm("all_reduce", name).supports(world.request("all_reduce", mine)) is not None:
            continue
        result = world.all_reduce(mine, algorithm=name)
        if not same_bits(result, reference.all_reduce(inputs)):
            faults.append(f"{name} {dtype_name}")
    return faults


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_bit_pattern(ranks: int) -> None:
    for faults in worldline.spawn(check_patterns, ranks):
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
