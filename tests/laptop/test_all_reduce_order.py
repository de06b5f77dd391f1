"""Calls of any size, algorithm and grid follow each other, whoever is late, across the wrap too."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
import torch

import worldline
from tests.laptop.all_reduce_cases import DTYPE_NAMES, random_bits, same_bits
from worldline.kernels import reference
from worldline.kernels.registry import Launch, algorithms
from worldline.primitives import layout

FLAG_WORDS = layout.MAX_BLOCKS * layout.MAX_WORLD
NAMES = tuple(row.name for row in algorithms("all_reduce", "cpu"))


def check_interleaving(world: Any, calls: int, epoch: int, seed: int) -> list[str]:
    """Run a random sequence that is equal on all ranks; one rank dawdles at random."""
    if epoch:
        world.lane.set_epoch(epoch)
        # The barrier's rounds wrap too, as signed numbers: start them and their flags below that.
        for offset, words in ((layout.ROUNDS, layout.MAX_BLOCKS), (layout.FLAGS, FLAG_WORDS)):
            world.lane.arena.fill_words(offset, epoch, words)
        # No call before every rank has done so.
        world.store.add("set", 1)
        while world.store.add("set", 0) < world.size:
            time.sleep(0.001)
    plan, dawdle = random.Random(seed), random.Random(seed * 100 + world.rank)
    faults = []
    for call in range(calls):
        name = plan.choice(NAMES)
        dtype = getattr(torch, plan.choice(DTYPE_NAMES))
        count = plan.choice((1, 2, 5, 33, 257, 1030, 4099))
        launch = Launch(block=plan.choice((16, 64, 256)), grid=plan.choice((1, 2, 3, 7)))
        late = plan.randrange(world.size)
        inputs = [random_bits(call * 50 + rank, count, dtype) for rank in range(world.size)]
        if world.rank == late:
            time.sleep(dawdle.choice((0, 0.001, 0.004)))
        result = world.all_reduce(inputs[world.rank], algorithm=name, launch=launch)
        if not same_bits(result, reference.all_reduce(inputs)):
            faults.append(f"call {call}: {name} {dtype} {count} {launch}, rank {late} late")
        if plan.random() < 0.05:
            world.barrier()
    return faults


@pytest.mark.parametrize(("ranks", "calls"), [(2, 120), (3, 60), (4, 40), (8, 8)])
def test_interleaved_calls(ranks: int, calls: int) -> None:
    for faults in worldline.spawn(check_interleaving, ranks, (calls, 0, ranks)):
        assert faults == []


@pytest.mark.parametrize(
    ("ranks", "epoch"),
    [
        (2, 0xFFFFFFFF - 6),
        (4, 0xFFFFFFFF - 6),
        (2, 0x7FFFFFFF - 6),
        (2, 0x1FFFFFFF - 6),  # The sentinel's count, times four, changes sign.
    ],
)
def test_across_the_epoch_wrap(ranks: int, epoch: int) -> None:
    # Two of five calls take epochs, two sentinel counts: either's wrap is among the first.
    arguments = (36, epoch, 40 + ranks)
    for faults in worldline.spawn(check_interleaving, ranks, arguments, arena_bytes=1 << 18):
        assert faults == []


def check_far_slot(world: Any) -> list[int]:
    """Leave flags of the last epochs far out, pass the wrap, and look for them."""
    world.lane.set_epoch(0xFFFFFFFF - 3)
    for count in (4000, 4000, 8, 8, 8, 8):
        world.all_reduce(torch.ones(count), algorithm="ll_one_shot")
    words = world.lane.arena.read(world.rank, layout.LL, world.lane.arena.layout.half // 4)
    return sorted({(word >> 32) & 0xFFFFFFFF for word in words})


def test_wrap_leaves_no_old_flag() -> None:
    for flags in worldline.spawn(check_far_slot, 2, arena_bytes=1 << 19):
        # The large calls had epochs 0xfffffffd and 0xfffffffe; the small ones could not cover them.
        assert flags == [0, 3, 4]
