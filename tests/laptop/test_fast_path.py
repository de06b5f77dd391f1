"""The path of a call that has a plan takes only what is as it seems; the rest is checked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from worldline import World


class Plan:
    """A plan that keeps what it was run on."""

    def __init__(self) -> None:
        self.runs: list[tuple[int, int]] = []

    def run(self, source: int, target: int) -> None:
        self.runs.append((source, target))


OPTIONS = ("sum", None, None, 0)


def world_with(plan: Plan, x: torch.Tensor) -> Any:
    """Return as much of a world as the path needs, with a plan for tensors like ``x``."""
    lane = SimpleNamespace(alive=True)
    plans = {(x.numel(), x.dtype, *OPTIONS, x.device): (plan, lane)}
    return SimpleNamespace(_plans=plans, lane=lane)


def test_an_ordinary_tensor_is_run() -> None:
    plan, x = Plan(), torch.ones(8)
    total = World._again(world_with(plan, x), x, OPTIONS)
    assert total is not None
    assert plan.runs == [(x.data_ptr(), total.data_ptr())]


@pytest.mark.parametrize(
    "odd",
    [
        torch._efficientzerotensor(8),
        torch.ones(8)._neg_view(),
        torch.ones(16)[::2],
        torch.ones(9),
        torch.ones(8).half(),
    ],
    ids=["zeroes", "negated", "strided", "another count", "another dtype"],
)
def test_an_odd_tensor_is_left_to_the_checked_path(odd: torch.Tensor) -> None:
    plan = Plan()
    assert World._again(world_with(plan, torch.ones(8)), odd, OPTIONS) is None
    assert plan.runs == []


def test_a_wrapped_tensor_is_left_to_the_checked_path() -> None:
    plan, found = Plan(), []

    def inner(x: torch.Tensor) -> torch.Tensor:
        found.append(World._again(world_with(plan, torch.ones(8)), x, OPTIONS))
        return x.sum()

    torch.func.grad(inner)(torch.ones(8))
    torch.func.functionalize(inner)(torch.ones(8))
    assert found == [None, None]
    assert plan.runs == []


@pytest.mark.parametrize(
    "options", [(["sum"], None, None, 0), ("sum", None, [128, 1], 0), ("sum", None, None, False)]
)
def test_odd_options_are_left_to_the_checked_path(options: tuple[Any, ...]) -> None:
    plan, x = Plan(), torch.ones(8)
    assert World._again(world_with(plan, x), x, options) is None
    assert plan.runs == []


def test_a_dead_lane_is_left_to_the_checked_path() -> None:
    plan, x = Plan(), torch.ones(8)
    world = world_with(plan, x)
    world.lane.alive = False
    assert World._again(world, x, OPTIONS) is None
