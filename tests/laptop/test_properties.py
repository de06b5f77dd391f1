"""Every row of the registry on the CPU: all that tests/properties asks of it, and the asking."""

from __future__ import annotations

import pytest
import torch

from tests.properties.check import assert_exact
from tests.properties.memory import FORMS, Form, Laid, lay
from tests.properties.plan import plan
from tests.properties.values import kinds
from tests.properties.worlds import DTYPES, Setup, ops
from worldline.kernels.registry import ALGORITHMS

CPU = torch.device("cpu")


@pytest.mark.parametrize("ranks", range(8, 0, -1))
def test_every_row(ranks: int) -> None:
    assert_exact(Setup("host", ranks))


@pytest.mark.parametrize("ranks", range(1, 9))
@pytest.mark.parametrize("provider", ["host", "loopback", "torch"])
def test_a_plan_leaves_nothing_out(provider: str, ranks: int) -> None:
    setup = Setup(provider, ranks)
    cases = plan(setup)
    for row in ALGORITHMS:
        mine = [case for case in cases if case.row == row.name]
        offers = {
            (dtype, op)
            for dtype in DTYPES
            for op in ops(row)
            if row.supports(setup.request(row, dtype, op)) is None
        }
        if not offers:
            assert not mine
            continue
        assert {0, 1} < {case.count for case in mine}
        assert {case.form for case in mine} == set(range(len(setup.forms)))
        assert {case.kind for case in mine} == {
            kind for dtype, _ in offers for kind in kinds(dtype)
        }
        if provider == "host" or row.backend == "cuda" or ranks <= 3:
            assert {(case.dtype, case.op) for case in mine} == offers


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
