"""Which counts a row is called with, in which launch shapes: the borders that its registry row has.

A count is interesting one element before, at and after a border: of an item, of the ranks' shares,
of what a program takes in a pass, of what the grid does, of what a launch holds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from worldline.kernels.chunks import chunk_elements
from worldline.kernels.parts import RULES
from worldline.kernels.protocols import COPIES
from worldline.kernels.registry import Algorithm, Launch, Request
from worldline.primitives.layout import ArenaLayout

_LARGEST = 1 << 18
"""Elements; what a launch holds is no border above this."""
_GRIDS = (1, 2, 3, 7, 512)

Point = tuple[int, Launch | None]


@dataclass(frozen=True)
class Subject:
    """A row on one dtype and op, in one world.

    Parameters
    ----------
    row : Algorithm
        What is called.
    dtype, op
        On what.
    layout : ArenaLayout
        The world's arenas.
    device_type : str
        Where it runs.
    blocks : tuple of int
        The blocks that its launches may have.
    """

    row: Algorithm
    dtype: torch.dtype
    op: str
    layout: ArenaLayout
    device_type: str
    blocks: tuple[int, ...]

    def request(self, count: int) -> Request:
        """Return what a call on ``count`` elements, of a part where it has parts, asks for."""
        world = self.layout.world_size
        rule = RULES.get(self.row.collective)
        return Request(
            self.row.collective,
            self.dtype,
            self.op,
            count * world if rule and rule.spread else count,
            world,
            self.device_type,
            torn="",
            torn_adds="",
        )

    @property
    def scales(self) -> bool:
        """Whether calls may have a factor; on GPUs, where that is compiled, of one dtype."""
        able = self.op == "sum" and self.dtype.is_floating_point and self.row.bitwise
        return able and (self.device_type == "cpu" or self.dtype is torch.bfloat16)

    @property
    def item(self) -> int:
        """Elements of an item."""
        return max(1, self.row.per_item(self.request(0)))

    @property
    def share(self) -> int:
        """Elements of which each program's item is one: an item to a rank, where it has shares."""
        return self.item * (self.layout.world_size if self.row.shots > 1 else 1)

    @property
    def capacity(self) -> int | None:
        """Elements of a launch, where that is a border."""
        most = chunk_elements(self.row, self.request(0), self.layout)
        return most if most <= _LARGEST else None


def points(rng: random.Random, subject: Subject) -> Iterator[Point]:
    """Draw counts, each with a launch shape, None for the row's own."""
    item, share, capacity = subject.item, subject.share, subject.capacity

    def near(border: int) -> int:
        return max(0, border + rng.choice((-item, -1, 0, 1, item)))

    counts = [0, 1, near(rng.randrange(1, 5) * item), near(rng.randrange(1, 4) * share)]
    counts.append(rng.randrange(2, 50 * item))
    narrow, wide = subject.blocks[0], subject.blocks[-1]
    passes = [(narrow, rng.randrange(1, 3)), (narrow, rng.randrange(3, 6))]
    if capacity is not None:
        counts += [capacity - 1, capacity, capacity + 1, near(2 * capacity)]
        counts.append(rng.randrange(2 * capacity, 3 * capacity))
    else:
        # A launch of any size goes through the same buffers again: of three, from the fourth pass.
        # A GPU's thread may take several items in one.
        many = rng.randrange(4, 8) * (1 if subject.device_type == "cpu" else 8)
        passes += [(narrow, many), (wide, 1), (wide, rng.randrange(2, 5))]
    if subject.row.protocol is COPIES:
        # Copies have no launch shapes.
        yield from ((count, None) for count in counts)
        return
    for count in counts:
        yield count, _launch(rng, subject, count)
    for block, number in passes:
        count = near(number * block * share)
        most = count if capacity is None else 3 * capacity
        yield min(count, most), Launch(block, rng.choice((1, 2, 3)), rng.randrange(2))


def _launch(rng: random.Random, subject: Subject, count: int) -> Launch | None:
    """Draw a launch shape; a CPU's with few passes, for each costs it as much as any other."""
    if rng.random() < 0.3:
        return None
    blocks = list(subject.blocks)
    if subject.device_type == "cpu":
        items = subject.row.items(subject.request(0), min(count, subject.capacity or count))
        blocks = [block for block in blocks if block * 2 >= items][:2] or blocks[-1:]
    return Launch(rng.choice(blocks), rng.choice(_GRIDS), rng.randrange(2))
