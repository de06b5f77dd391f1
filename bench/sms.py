"""How few streaming multiprocessors do: what a smaller grid costs."""

from __future__ import annotations

from typing import Any

import torch

from worldline.kernels.chunks import chunks
from worldline.kernels.launch import largest_grid
from worldline.kernels.registry import Algorithm, Launch

GRIDS = (4, 8, 16, 24, 32, 48, 64, 96, 128)
WITHIN = 1.025
"""A grid does while it takes no longer than this times the best."""


def occupied(world: Any, row: Algorithm, x: torch.Tensor, shape: Launch) -> int:
    """Return how many multiprocessors a call's blocks occupy, spread as the GPU spreads them."""
    most = largest_grid(row, shape, world.lane.provider)
    request = world.request(row.collective, x)
    cut = chunks(row, request, world.lane.arena.layout, shape, most)
    gpu: Any = torch.cuda.get_device_properties(x.device)
    return min(max((blocks for *_, blocks in cut), default=0), int(gpu.multi_processor_count))


def smaller_grids(world: Any, row: Algorithm, x: torch.Tensor) -> list[Launch]:
    """List launch shapes that occupy fewer multiprocessors than the default, fewest first."""
    request = world.request(row.collective, x)
    default, *others = row.launches(request)
    # Few blocks do more if they are wide.
    block = max(shape.block for shape in (default, *others))
    shapes = [Launch(block, grid) for grid in GRIDS]
    usual = occupied(world, row, x, default)
    return [
        shape
        for shape in shapes
        if shape.grid <= occupied(world, row, x, shape) < usual
        and row.refuses(request, shape) is None
    ]


def fewest(medians: list[float]) -> int:
    """Return the first of several times that is within ``WITHIN`` of the best, by its index."""
    best = min(medians)
    return next(i for i, seconds in enumerate(medians) if seconds <= WITHIN * best)
