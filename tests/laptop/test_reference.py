"""The reference itself, against arithmetic done another way."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from tests.laptop.all_reduce_cases import random_input
from worldline.kernels import reference


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_nan_has_one_pattern(dtype: torch.dtype) -> None:
    every = torch.tensor([float("nan"), float("inf"), 1.0], dtype=dtype)
    other = torch.tensor([1.0, float("-inf"), 2.0], dtype=dtype)
    bits = reference.bits(reference.all_reduce([every, other])).tolist()
    assert bits[:2] == [reference.CANONICAL_NAN[dtype]] * 2
    assert bits[2] == reference.bits(torch.tensor([3.0], dtype=dtype)).item()
