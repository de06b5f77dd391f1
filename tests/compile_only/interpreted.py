"""Run every all-reduce in the interpreter on two ranks and compare bits: a subprocess's program.

Prints the version of Triton that the ranks had, then one line for each that is wrong.
"""

from __future__ import annotations

import itertools

import torch
import triton

import worldline
from tests.laptop.all_reduce_cases import random_bits, random_input, same_bits
from worldline.kernels import reference
from worldline.kernels.numerics import DTYPES, OPS
from worldline.kernels.registry import algorithms

RANKS = 2
COUNT = 517
"""Odd, and no multiple of an item: every width of load and store is met."""


def inputs(rank: int, dtype: torch.dtype) -> torch.Tensor:
    """Return a rank's input: any bit pattern, then ordinary numbers."""
    return torch.cat([random_bits(rank, COUNT, dtype), random_input(rank, COUNT, dtype)])


def reduce_all(world: worldline.World) -> tuple[str, list[str]]:
    """Run every algorithm on every dtype and op; return Triton's version and what was wrong."""
    wrong = []
    for dtype, op in itertools.product(DTYPES, OPS):
        whole = [inputs(rank, dtype) for rank in range(world.size)]
        expected, mine = reference.all_reduce(whole, op), whole[world.rank]
        for row in algorithms("all_reduce", "cpu"):
            if row.supports(world.request("all_reduce", mine, op)) is not None:
                continue
            found = world.all_reduce(mine, op=op, algorithm=row.name)
            if not same_bits(found, expected):
                wrong.append(f"{row.name} {dtype} {op} on rank {world.rank}")
    return triton.__version__, wrong


def main() -> None:
    """Print the ranks' version of Triton, then what was wrong."""
    # By its name as a module, so that the ranks can import it.
    from tests.compile_only import interpreted

    answers = worldline.spawn(interpreted.reduce_all, RANKS, timeout=120)
    print(*sorted({version for version, _ in answers}))
    for _, wrong in answers:
        for line in wrong:
            print(line)


if __name__ == "__main__":
    main()
