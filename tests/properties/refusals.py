"""What a row does not serve it refuses, by its name and with the reason."""

from __future__ import annotations

import itertools

import torch

from tests.properties.worlds import DTYPES, OPS, Setup
from worldline import UnsupportedError, World
from worldline.kernels.registry import ALGORITHMS


def check_refusals(world: World, setup: Setup) -> list[str]:
    """Ask every row for all that it does not serve; return what was wrong with the answers."""
    wrong = []
    for row, dtype, op in itertools.product(ALGORITHMS, DTYPES, OPS):
        reason = row.supports(setup.request(row, dtype, op))
        if reason is None:
            continue
        x = torch.empty(1, dtype=dtype, device=world.device)
        try:
            world.all_reduce(x, op=op, algorithm=row.name)
            answer = "no error"
        except UnsupportedError as error:
            answer = str(error)
        if row.name not in answer or reason not in answer:
            wrong.append(f"{row.name}, {dtype}, {op}: {answer!r}, not {reason!r}")
    return wrong
