"""What the inputs hold: numbers whose order of adding shows, and every kind of special value."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

from tests.laptop.all_reduce_cases import random_input
from worldline.kernels.numerics import DTYPES as REDUCED

WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.int64}
"""Integers to look at elements of so many bytes; two for each of 16."""


def words(x: torch.Tensor) -> torch.Tensor:
    """View a contiguous tensor's elements as integers."""
    return x.view(WORDS[x.element_size()])


def generator(seed: str) -> torch.Generator:
    """Return torch's generator for a seed in words."""
    return torch.Generator().manual_seed(random.Random(seed).getrandbits(63))


def any_bits(generator: torch.Generator, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Draw every bit; of a bool's the one that it has."""
    size, most = (count * dtype.itemsize,), 2 if dtype is torch.bool else 256
    return torch.randint(0, most, size, generator=generator, dtype=torch.uint8).view(dtype)


Values = Callable[[torch.Generator, int, torch.dtype], torch.Tensor]


def _exponent(dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.float8_e4m3fn:
        return torch.tensor([0x78], dtype=torch.uint8)
    return words(torch.tensor([float("inf")]).to(dtype))


def _chosen(where: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Take elements of ``x`` where a condition holds, else of ``y``; by their bits."""
    return torch.where(where, words(x), words(y)).view(x.dtype)


def _wide(generator: torch.Generator, count: int, dtype: torch.dtype) -> torch.Tensor:
    seed = int(torch.randint(1 << 40, (1,), generator=generator))
    return random_input(seed, count, dtype)


def _ones(generator: torch.Generator, count: int, dtype: torch.dtype) -> torch.Tensor:
    """All ones, alone or in runs of every length and alignment: they look like empty slots."""
    x = _wide(generator, count, dtype)
    lengths = torch.randint(1, 40, (count // 8 + 2,), generator=generator)
    lengths[-1] = count  # whatever they add up to
    odd = (torch.arange(len(lengths)) + lengths[0]) % 2 == 1
    ones = torch.repeat_interleave(odd, lengths)[:count]
    if torch.rand(1, generator=generator) < 0.2:
        ones[:] = True
    x.view(torch.uint8).view(count, dtype.itemsize)[ones] = 0xFF
    return x


def _zeros(generator: torch.Generator, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Zeros of both signs, mostly negative: where all ranks have -0.0 the sum has it too."""
    positive = torch.rand(count, generator=generator) < 0.1
    return torch.where(positive, 0.0, -0.0).to(dtype)


def _infinities(generator: torch.Generator, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Infinities of both signs amid ordinary numbers; the largest ones where there are none."""
    x, draw = _wide(generator, count, dtype), torch.rand(count, generator=generator)
    large = torch.finfo(dtype).max if dtype == torch.float8_e4m3fn else float("inf")
    for sign, share in ((1, 0.3), (-1, 0.15)):
        x = _chosen(draw < share, torch.full((count,), sign * large).to(dtype), x)
    return x


def _subnormals(generator: torch.Generator, count: int, dtype: torch.dtype) -> torch.Tensor:
    x = any_bits(generator, count, dtype)
    words(x).bitwise_and_(~_exponent(dtype))
    return x


def _payloads(generator: torch.Generator, count: int, dtype: torch.dtype) -> torch.Tensor:
    """NaN of every payload and sign, quiet and signalling, amid ordinary numbers."""
    x, nan = _wide(generator, count, dtype), any_bits(generator, count, dtype)
    words(nan).bitwise_or_(_exponent(dtype))
    return _chosen(torch.rand(count, generator=generator) < 0.5, nan, x)


def _extremes(generator: torch.Generator, count: int, dtype: torch.dtype) -> torch.Tensor:
    """What is next to a border of an integer dtype, which sums and products wrap around."""
    info = torch.iinfo(dtype)
    near = (info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3)
    values = torch.tensor(near, dtype=torch.int64).to(dtype)
    return values[torch.randint(0, len(near), (count,), generator=generator)]


def _whole(generator: torch.Generator, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Whole numbers, as small as every dtype has them: their sums are exact in any order."""
    return torch.randint(-128, 129, (count,), generator=generator).to(dtype)


def _amid_whole(draw: Values) -> Values:
    """Put whole numbers in the place of ordinary ones: of what is special any order gives the same.

    Zeros are positive there: whether a sum of negative ones is, is not promised.
    """

    def drawn(generator: torch.Generator, count: int, dtype: torch.dtype) -> torch.Tensor:
        x = draw(generator, count, dtype)
        return torch.where(x.isfinite(), _whole(generator, count, dtype), x)

    return drawn


_OF_INTEGERS: dict[str, Values] = {
    "wide": _wide,
    "any bits": any_bits,
    "all ones": _ones,
    "extremes": _extremes,
}
_OF_FLOATS: dict[str, Values] = {
    "wide": _wide,
    "any bits": any_bits,
    "all ones": _ones,
    "zeros": _zeros,
    "infinities": _infinities,
    "subnormals": _subnormals,
    "NaN payloads": _payloads,
}


INEXACT = "in any order"
"""The kind whose sums depend on the order of adding, of those for rows that promise none."""
_OF_ANY_ORDER: dict[str, Values] = {
    "whole": _whole,
    INEXACT: _wide,
    **{name: _amid_whole(_OF_FLOATS[name]) for name in ("all ones", "infinities", "NaN payloads")},
}


def kinds(dtype: torch.dtype, bitwise: bool = True) -> dict[str, Values]:
    """Return every kind of values that a dtype has: what draws ``count`` of them.

    For rows that are not ``bitwise`` all but one have the same sums in any order.
    """
    if dtype not in REDUCED:
        return {"any bits": any_bits}
    if not dtype.is_floating_point:
        return _OF_INTEGERS
    return _OF_FLOATS if bitwise else _OF_ANY_ORDER


def inputs(
    kind: str, seed: str, ranks: int, count: int, dtype: torch.dtype, bitwise: bool = True
) -> list[torch.Tensor]:
    """Draw every rank's input, on the CPU; equal wherever it is called."""
    draw = kinds(dtype, bitwise)[kind]
    return [draw(generator(f"{seed} {rank}"), count, dtype) for rank in range(ranks)]
