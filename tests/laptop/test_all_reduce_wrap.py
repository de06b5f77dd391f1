"""Before the wrap LL clears what the last epochs left, so that no old flag looks fresh after it."""

from __future__ import annotations

from typing import Any

import torch

import worldline
from worldline.primitives import layout


def check_far_slot(world: Any) -> list[int]:
    """Leave flags of the last epochs far out, pass the wrap, and look for them."""
    world.lane.set_epoch(0xFFFFFFFF - 3)
    for count in (4000, 4000, 8, 8, 8, 8):
        world.all_reduce(torch.ones(count), algorithm="ll_one_shot")
    words = world.lane.arena.read(world.rank, layout.LL, world.lane.arena.layout.half // 4)
    return sorted({(word >> 32) & 0xFFFFFFFF for word in words})


def test_wrap_leaves_no_old_flag() -> None:
    for flags in worldline.spawn(check_far_slot, 2, arena_bytes=1 << 20):
        # The large calls had epochs 0xfffffffd and 0xfffffffe; the small ones could not cover them.
        assert flags == [0, 3, 4]
