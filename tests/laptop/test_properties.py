"""Every row of the registry on the CPU: all that tests/properties asks of it, and the asking."""

from __future__ import annotations

import itertools

import pytest
import torch

import worldline
from tests.properties.calls import prepare
from tests.properties.check import assert_exact
from tests.properties.memory import FORMS, Form, Laid, lay
from tests.properties.plan import Case, plan
from tests.properties.values import INEXACT, inputs, kinds
from tests.properties.worlds import DTYPES, Setup, ops
from worldline import World
from worldline.kernels import reference
from worldline.kernels.registry import ALGORITHMS

CPU = torch.device("cpu")


@pytest.mark.parametrize("ranks", range(8, 0, -1))
def test_every_row(ranks: int) -> None:
    assert_exact(Setup("host", ranks))


@pytest.mark.parametrize("provider", ["host", "loopback", "torch"])
def test_plans_leave_nothing_out(provider: str) -> None:
    # On GPUs a pair of a dtype and an op may be the second seed's.
    setups = [
        Setup(provider, ranks, seed)
        for ranks in range(1, 9)
        for seed in ((0,) if provider == "host" else (0, 1))
    ]
    cases = [case for setup in setups for case in plan(setup)]
    for row in ALGORITHMS:
        mine = [case for case in cases if (case.collective, case.row) == (row.collective, row.name)]
        offers = {
            (dtype, op)
            for setup, dtype, op in itertools.product(setups, DTYPES, ops(row))
            if row.supports(setup.request(row, dtype, op)) is None
        }
        if not offers:
            assert not mine
            continue
        assert {0, 1} < {case.count for case in mine}
        assert {case.form for case in mine} == set(range(len(setups[0].forms)))
        assert {(case.dtype.is_floating_point, case.kind) for case in mine} == {
            (dtype.is_floating_point, kind)
            for dtype, _ in offers
            for kind in kinds(dtype, row.bitwise)
        }
        if provider == "host" or row.backend == "cuda" or row.collective != "all_reduce":
            assert {(case.dtype, case.op) for case in mine} == offers
        scaled = {case.dtype for case in mine if case.scale is not None}
        assert scaled <= {dtype for dtype in DTYPES if dtype.is_floating_point}
        assert bool(scaled) == (row.bitwise and row.collective == "all_reduce")


@pytest.mark.parametrize("ranks", range(1, 9))
@pytest.mark.parametrize("provider", ["loopback", "torch"])
def test_a_world_of_gpus_has_every_row(provider: str, ranks: int) -> None:
    setup = Setup(provider, ranks)
    cases = plan(setup)
    for row in ALGORITHMS:
        mine = [case for case in cases if case.row == row.name]
        served = any(
            row.supports(setup.request(row, dtype, op)) is None
            for dtype, op in itertools.product(DTYPES, ops(row))
        )
        assert served == bool(mine)
        if served:
            assert {0, 1} < {case.count for case in mine}
            assert {case.form for case in mine} == set(range(len(setup.forms)))
        # Those that a world has ready, and few that have to be compiled.
        pairs = {(case.dtype, case.op) for case in mine if case.op}
        assert len(pairs) <= 7


def sum_of_ones(form: Form, count: int = 6) -> Laid:
    """Lay out a call on two ranks' ones, and make it."""
    ones = torch.ones(count)
    laid = lay(form, "seed", ones, ones * 2, CPU)
    if laid.out is not None:
        laid.out.fill_(2.0)
    return laid


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_what_a_call_may_change(form: Form) -> None:
    laid = sum_of_ones(form)
    new = torch.full(laid.x.shape, 2.0)
    assert laid.faults(new if laid.out is None else laid.out) == []
    for piece in laid.pieces:
        for place in (0, len(piece.now) // 2, -1):
            piece.now[place : place + 1 or None].neg_()
            assert len(laid.faults(new if laid.out is None else laid.out)) == 1
            piece.now[place : place + 1 or None].neg_()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_sums_of_any_order_are_the_references(dtype: torch.dtype) -> None:
    differ = {}
    for kind in kinds(dtype, bitwise=False):
        drawn = inputs(kind, "seed", 5, 4000, dtype, bitwise=False)
        total = reference.bits(reference.all_reduce(drawn))
        orders = (drawn[::-1], [*drawn[2:], *drawn[:2]])
        differ[kind] = any((reference.bits(reference.all_reduce(x)) != total).any() for x in orders)
    # Halves have so few digits that floats add them without rounding.
    seen = [INEXACT] if dtype is torch.float32 else []
    assert [kind for kind, differs in differ.items() if differs] == seen


def sum_of_any_order(world: World, spoilt: int | None) -> list[str]:
    """Check a sum whose bits only the ranks know, of which one rank's has an element more."""
    row, setup = next(row for row in ALGORITHMS if not row.bitwise), Setup("host", world.size)
    case = Case("all_reduce", row.name, torch.float32, "sum", 1000, None, INEXACT, 0, None, False)
    call = prepare(world, setup, 0, case)
    result = world.all_reduce(call.tensors.x, out=call.tensors.out, algorithm="ll_two_shot")
    if spoilt == world.rank:
        result.view(-1)[7] += 1e-3
    return [fault.partition(":")[0] for fault in call.faults(result)]


def test_ranks_agree_on_a_sum_of_any_order() -> None:
    for spoilt, wrong in ((None, ([], [])), (1, ([], ["wrong bits"]))):
        found = worldline.spawn(sum_of_any_order, 2, (spoilt,), provider="host")
        assert tuple(found) == wrong


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_result_may_become_what_is_expected(form: Form) -> None:
    laid = sum_of_ones(form)
    three = torch.full(laid.x.shape, 3.0)
    laid.expect(three.flatten())
    if laid.out is not None:
        assert len(laid.faults(laid.out)) == 1
        laid.out.fill_(3.0)
    assert laid.faults(three if laid.out is None else laid.out) == []


def test_what_a_result_must_be() -> None:
    into_new, in_place = sum_of_ones(FORMS[0]), sum_of_ones(FORMS[2])
    shape = into_new.x.shape
    one_off = torch.full(shape, 2.0)
    one_off.view(-1)[4] = 3.0
    assert "wrong bits: 1 element(s), the first at 4: 0x40400000, not 0x40000000" in str(
        into_new.faults(one_off)
    )
    assert "the result is [7]" in str(into_new.faults(torch.full((7,), 2.0)))
    assert in_place.faults(in_place.x.clone()) == ["the result is not out"]
