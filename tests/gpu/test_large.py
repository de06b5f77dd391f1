"""More than 4 GiB in one call: neither bytes nor elements are counted in 32 bits."""

from __future__ import annotations

import pytest
import torch

import worldline
from tests.gpu.places import places
from tests.gpu.ranks import meet
from worldline import World
from worldline.kernels.registry import algorithms

COUNT = (1 << 31) + 12345
"""Elements of two bytes."""
PART = 1 << 26


def values(rank: int, start: int, count: int, device: torch.device) -> torch.Tensor:
    """Return a part of a rank's input: whole numbers whose place in the tensor shows."""
    place = torch.arange(start, start + count, device=device, dtype=torch.int64)
    mixed = (place ^ (place >> 13)) * 40503 + rank * 977
    return (mixed % 509 - 254).bfloat16()


def settle(world: World) -> None:
    """Wait until no rank's kernel runs: only then may anything be copied to the host."""
    world.synchronize()
    meet(world)


def check(world: World) -> list[str]:
    """Reduce by every row; return what was wrong."""
    device, wrong = world.device, []
    starts = range(0, COUNT, PART)
    mine = torch.empty(COUNT, dtype=torch.bfloat16, device=device)
    for start in starts:
        part = mine[start : start + PART]
        part.copy_(values(world.rank, start, len(part), device))
    for row in algorithms("all_reduce"):
        total = torch.full_like(mine, -1)
        settle(world)
        world.all_reduce(mine, out=total, algorithm=row.name)
        settle(world)
        for start in starts:
            part = total[start : start + PART]
            expected = values(0, start, len(part), device).float()
            for rank in range(1, world.size):
                expected += values(rank, start, len(part), device)
            if not torch.equal(part, expected.bfloat16()):
                place = start + int((part != expected.bfloat16()).nonzero()[0])
                wrong.append(f"{row.name}: element {place}, rank {world.rank}")
                break
    return wrong


@pytest.mark.parametrize(("provider", "ranks"), places())
def test_more_than_four_gibibytes(provider: str, ranks: int) -> None:
    options = {"provider": provider, "deadline": 60, "dtypes": [torch.bfloat16]}
    for wrong in worldline.spawn(check, ranks, **options):
        assert wrong == []
