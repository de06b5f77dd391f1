"""The reference itself, against arithmetic done another way."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from tests.laptop.all_reduce_cases import random_input
from worldline.kernels import reference
from worldline.kernels.numerics import DTYPES, OPS


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bit_sums_round_once(dtype: torch.dtype) -> None:
    a, b = (random_input(seed, 500, dtype) for seed in (1, 2))
    result = reference.all_reduce([a, b])
    for x, y, z in zip(a.tolist(), b.tolist(), result.tolist(), strict=True):
        # Two 16-bit numbers of this range add exactly or nearly so in float32: the result is one
        # of the two neighbours of the exact sum, and the nearer.
        exact = Fraction(x) + Fraction(y)
        step = abs(Fraction(z)) / (1 << (10 if dtype == torch.float16 else 7)) + Fraction(2) ** -24
        assert abs(Fraction(z) - exact) <= step / 2 * Fraction(101, 100)


def test_the_order_is_that_of_ranks() -> None:
    big, one = torch.tensor([2.0**24]), torch.tensor([1.0])
    assert reference.all_reduce([big, one, one]).item() == 2.0**24
    assert reference.all_reduce([one, one, big]).item() == 2.0**24 + 2


def test_minus_zero_stays() -> None:
    zeros = torch.tensor([-0.0])
    assert math.copysign(1, reference.all_reduce([zeros, zeros]).item()) == -1


@pytest.mark.parametrize("dtype", list(reference.CANONICAL_NAN))
def test_nan_has_one_pattern(dtype: torch.dtype) -> None:
    every = torch.tensor([float("nan"), -float("nan"), 1.0]).to(dtype)
    other = torch.tensor([1.0, 1.0, 2.0]).to(dtype)
    bits = reference.bits(reference.all_reduce([every, other])).tolist()
    assert bits[:2] == [reference.CANONICAL_NAN[dtype]] * 2
    assert bits[2] == reference.bits(torch.tensor([3.0]).to(dtype)).item()
    if dtype != torch.float8_e4m3fn:
        opposite = [torch.tensor([sign * float("inf")]).to(dtype) for sign in (1, -1)]
        assert reference.bits(reference.all_reduce(opposite)).tolist() == bits[:1]


FLOATS = [dtype for dtype in DTYPES if dtype.is_floating_point]
INTEGERS = [dtype for dtype in DTYPES if not dtype.is_floating_point]
LARGEST = {
    torch.float8_e4m3fn: Fraction(464),  # what rounds to 448 still
    torch.float8_e5m2: Fraction(61440),
    torch.float16: Fraction(65520),
}


def nearest(exact: Fraction, dtype: torch.dtype) -> float:
    """Round to nearest even among a dtype's numbers, by arithmetic of integers alone."""
    digits = {torch.float8_e4m3fn: 4, torch.float8_e5m2: 3, torch.float16: 11, torch.bfloat16: 8}
    mantissa = digits.get(dtype, 24 if dtype == torch.float32 else 53)
    least = {torch.float8_e4m3fn: -9, torch.float8_e5m2: -16, torch.float16: -24}.get(
        dtype, -1074 if dtype == torch.float64 else -149 if dtype == torch.float32 else -133
    )
    size = abs(exact)
    if size == 0:
        return 0.0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    step = Fraction(2) ** max(exponent - mantissa + 1, least)
    value = round(exact / step) * step  # Python rounds halves to even.
    if dtype in LARGEST and size >= LARGEST[dtype]:
        if dtype == torch.float8_e4m3fn:
            return float("nan") if size > LARGEST[dtype] else float(value)
        return math.copysign(float("inf"), exact)
    return float(value)


def same(x: float, y: float) -> bool:
    return x == y or (math.isnan(x) and math.isnan(y))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["sum", "avg", "min", "max", "prod", "scaled"])
def test_floats_are_those_of_exact_arithmetic(dtype: torch.dtype, op: str) -> None:
    # Two ranks, so that an accumulator of few digits' sum or product is one rounding of its own.
    a, b = (random_input(seed, 300, dtype) for seed in (3, 4))
    inner = torch.float64 if dtype == torch.float64 else torch.float32
    scale = 1 / 3 if op == "scaled" else None
    result = reference.all_reduce([a, b], "sum" if scale else op, scale)
    for x, y, z in zip(*(part.double().tolist() for part in (a, b, result)), strict=True):
        if math.isnan(x) or math.isnan(y):
            assert math.isnan(z)
            continue
        p, q = Fraction(x), Fraction(y)
        if scale:
            factor = Fraction(nearest(Fraction(scale), inner))
            p, q = (Fraction(nearest(part * factor, inner)) for part in (p, q))
        exact = {"min": min(p, q), "max": max(p, q), "prod": p * q}.get(op, p + q)
        held = Fraction(nearest(exact, inner))
        if op == "avg":
            held = Fraction(nearest(held / 2, inner))
        assert same(z, nearest(held, dtype)), (x, y, z)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", list(OPS))
@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_integers_are_those_of_exact_arithmetic(dtype: torch.dtype, op: str, ranks: int) -> None:
    info = torch.iinfo(dtype)
    every = [random_input(rank, 300, dtype) for rank in range(ranks)]
    for x in every:
        x[:4] = torch.tensor([info.min, info.max, info.min + 1, info.max - 1], dtype=dtype)
    values = info.max - info.min + 1

    def wrapped(number: int, of: int = values, low: int = info.min) -> int:
        return (number - low) % of + low

    result = reference.all_reduce(every, op)
    for *parts, z in zip(*(x.tolist() for x in (*every, result)), strict=True):
        total = sum(parts)
        if op == "avg":
            if dtype == torch.int64:
                total = wrapped(total)
            assert z == int(Fraction(total, ranks))  # towards zero
        else:
            made = {"sum": total, "min": min(parts), "max": max(parts), "prod": math.prod(parts)}
            assert z == wrapped(made[op])


def test_an_average_is_a_division() -> None:
    thirds = [torch.tensor([1.0]), torch.tensor([0.0]), torch.tensor([9.0])]
    assert reference.all_reduce(thirds, "avg").item() == torch.tensor(10.0).div(3.0).item()
    assert reference.all_reduce(thirds, "avg").item() != torch.tensor(10.0).mul(1 / 3).item()


@pytest.mark.parametrize("op", ["min", "max"])
def test_of_zeros_the_earlier_ranks_stays(op: str) -> None:
    plus, minus = torch.tensor([0.0]), torch.tensor([-0.0])
    for pair in ([plus, minus], [minus, plus]):
        assert reference.bits(reference.all_reduce(pair, op)) == reference.bits(pair[0])
    nan = torch.tensor([float("nan")])
    for three in ([nan, plus, plus], [plus, nan, plus], [plus, plus, nan]):
        assert torch.isnan(reference.all_reduce(three, op))


def test_a_product_is_rounded_before_it_is_added() -> None:
    one, more, scale = Fraction(1), 1 + Fraction(2) ** -23, 1 + Fraction(2) ** -12
    product = Fraction(nearest(scale * more, torch.float32))
    twice, once = (nearest(scale + x, torch.float32) for x in (product, scale * more))
    inputs = [torch.tensor([float(x)]) for x in (one, more)]
    assert reference.all_reduce(inputs, scale=float(scale)).item() == twice != once
