"""The path of a call that has a plan takes only what is as it seems; the rest is checked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from worldline.plans import Plans


class Plan:
    """A plan that keeps what it was run on."""

    def __init__(self) -> None:
        self.runs: list[tuple[int, int]] = []

    def run(self, source: int, target: int) -> None:
        self.runs.append((source, target))


OPTIONS = ("all_reduce", "sum", None, 0, None, None, 0)


def plans_with(plan: Plan, x: torch.Tensor, alive: bool = True) -> Plans:
    """Return plans that know one for tensors like ``x``."""
    plans = Plans(SimpleNamespace())  # type: ignore[arg-type]
    plans._known[plans._key(x, OPTIONS)] = (plan, SimpleNamespace(alive=alive))  # type: ignore
    return plans


def test_an_ordinary_tensor_is_run() -> None:
    plan, x = Plan(), torch.ones(8)
    total = plans_with(plan, x).again(x, OPTIONS)
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
    assert plans_with(plan, torch.ones(8)).again(odd, OPTIONS) is None
    assert plan.runs == []


def test_a_wrapped_tensor_is_left_to_the_checked_path() -> None:
    plan, found = Plan(), []

    def inner(x: torch.Tensor) -> torch.Tensor:
        found.append(plans_with(plan, torch.ones(8)).again(x, OPTIONS))
        return x.sum()

    torch.func.grad(inner)(torch.ones(8))
    torch.func.functionalize(inner)(torch.ones(8))
    assert found == [None, None]
    assert plan.runs == []


@pytest.mark.parametrize(
    "options",
    [
        ("all_reduce", ["sum"], None, 0, None, None, 0),
        ("all_reduce", "sum", None, 0, None, [128, 1], 0),
        ("all_reduce", "sum", None, 0, None, None, False),
        ("all_reduce", "sum", "2", 0, None, None, 0),
        ("all_reduce", "sum", 10**400, 0, None, None, 0),
        ("all_reduce", "sum", 0.0, 0, None, None, 0),
    ],
)
def test_odd_options_are_left_to_the_checked_path(options: tuple[Any, ...]) -> None:
    plan, x = Plan(), torch.ones(8)
    assert plans_with(plan, x).again(x, options) is None
    assert plan.runs == []


def test_a_mode_or_a_tracer_leaves_it_to_the_checked_path() -> None:
    plan, found, x = Plan(), [], torch.ones(8)
    plans = plans_with(plan, x)

    def call(t: torch.Tensor) -> torch.Tensor:
        found.append(plans.again(x, OPTIONS))
        return t + 1

    with FakeTensorMode():
        found.append(plans.again(x, OPTIONS))
    make_fx(call)(x)
    make_fx(call, pre_dispatch=True)(x)
    torch.jit.trace(call, x, check_trace=False)
    assert found == [None] * 4
    assert plan.runs == []


def test_a_dead_lane_is_left_to_the_checked_path() -> None:
    plan, x = Plan(), torch.ones(8)
    assert plans_with(plan, x, alive=False).again(x, OPTIONS) is None
    assert plan.runs == []


def test_scales_differ_by_their_bits() -> None:
    x, options = torch.ones(8), [("sum", scale, None, None, 0) for scale in (0.0, -0.0, 1.0, None)]
    assert len({Plans._key(x, found) for found in options}) == len(options)
    nan = ("sum", float("nan"), None, None, 0)
    assert Plans._key(x, nan) == Plans._key(x, ("sum", float("nan"), None, None, 0))
