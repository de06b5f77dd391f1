"""What a row does not serve it refuses, by its name and with the reason."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from tests.properties.worlds import DTYPES, Setup, ops
from worldline import UnsupportedError, World
from worldline.kernels.registry import ALGORITHMS


def check_refusals(world: World, setup: Setup) -> list[str]:
    """Ask every row for all that it does not serve; return what was wrong with the answers."""
    wrong = []
    options: dict[str, Any]
    asked = [(row, op) for row in ALGORITHMS for op in ops(row)]
    for (row, op), dtype in itertools.product(asked, DTYPES):
        reason = row.supports(setup.request(row, dtype, op))
        if reason is None:
            continue
        x = torch.empty(world.size, dtype=dtype, device=world.device)
        try:
            options = {"op": op} if op else {}
            if row.collective == "scatter":
                options["out"] = x[:1]
            getattr(world, row.collective)(x, algorithm=row.name, **options)
            answer = "no error"
        except UnsupportedError as error:
            answer = str(error)
        if row.name not in answer or reason not in answer:
            wrong.append(f"{row.name}, {dtype}, {op}: {answer!r}, not {reason!r}")
    return wrong
