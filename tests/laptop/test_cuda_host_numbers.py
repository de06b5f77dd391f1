"""The host twins of the GPU's numbers: conversions as torch's, reductions as the reference's.

For every dtype and operation, on every pattern where those are few.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.laptop.all_reduce_cases import random_bits, random_input
from worldline.kernels import reference
from worldline.kernels.launch import scale_bits
from worldline.kernels.numerics import DTYPES, OP_CODES, SCALED_SUM

WORLDS = (1, 2, 3, 5, 8)
SCALES = (1 / 3, -0.0, 2.0**-126, 3e38, 1e-320, float("inf"), float("nan"))
POINTERS = ctypes.c_void_p, ctypes.c_void_p


@pytest.fixture(scope="module")
def library(
    repo_root: Path, tmp_path_factory: pytest.TempPathFactory, require_tool: Callable[[str], str]
) -> ctypes.CDLL:
    """Compile the numbers as a library."""
    folder = tmp_path_factory.mktemp("numbers")
    source = repo_root / "tests/host_cuda/numbers.cpp"
    includes = [f"-I{repo_root / place}" for place in ("primitives/cuda", "kernels/cuda")]
    # No product and sum in one operation, where a CPU has that.
    flags = ["-std=c++20", "-O1", "-ffp-contract=off", "-shared", "-fPIC", *includes]
    command = [require_tool("g++"), *flags, str(source), "-o", "numbers.so"]
    subprocess.run(command, cwd=folder, check=True)
    found = ctypes.CDLL(str(folder / "numbers.so"))
    found.all.argtypes = (*[ctypes.c_int] * 3, *POINTERS, ctypes.c_int, ctypes.c_uint64)
    return found


def call(function: Callable[..., None], x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    function(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(out.data_ptr()), out.numel())
    return out


def same_numbers(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Say whether two tensors agree to the bit, or are NaN at the same places."""
    numbers = ~torch.isnan(y)
    return torch.equal(torch.isnan(x), ~numbers) and torch.equal(
        reference.bits(x)[numbers], reference.bits(y)[numbers]
    )


def floats() -> torch.Tensor:
    """Return all signs, exponents and leading mantissas, with the bits that decide ties and not."""
    high = torch.arange(-(2**15), 2**15, dtype=torch.int64) << 16
    x = torch.cat([(high | low).to(torch.int32) for low in (0, 1, 0x1000, 0x1001, 0x8000, 0xFFFF)])
    return torch.cat([x, x ^ 0x2000]).view(torch.float32)


def test_every_half_widens_as_in_torch(library: ctypes.CDLL) -> None:
    x = torch.arange(-(2**15), 2**15).to(torch.int16)
    wide = call(library.widen, x, torch.empty(2**16))
    assert same_numbers(wide, x.view(torch.float16).float())


@pytest.mark.parametrize(
    ("dtype", "name"), [(torch.float8_e4m3fn, "wide_e4m3"), (torch.float8_e5m2, "wide_e5m2")]
)
def test_every_byte_widens_as_in_torch(library: ctypes.CDLL, dtype: torch.dtype, name: str) -> None:
    x = torch.arange(256).to(torch.uint8)
    wide = call(getattr(library, name), x, torch.empty(256))
    assert same_numbers(wide, x.view(dtype).float())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounding_is_torchs(library: ctypes.CDLL, dtype: torch.dtype) -> None:
    x = floats()
    function = library.halves if dtype == torch.float16 else library.bfloats
    rounded = call(function, x, torch.empty(x.numel() // 2, dtype=torch.int32)).view(dtype)
    expected = x.to(dtype)
    reference.bits(expected)[torch.isnan(x)] = reference.CANONICAL_NAN[dtype]
    assert torch.equal(reference.bits(rounded), reference.bits(expected))


@pytest.mark.parametrize(
    ("dtype", "name"), [(torch.float8_e4m3fn, "e4m3"), (torch.float8_e5m2, "e5m2")]
)
def test_rounding_to_bytes_is_torchs(library: ctypes.CDLL, dtype: torch.dtype, name: str) -> None:
    borders = torch.tensor([448.0, 464.0, 480.0, 57344.0, 61440.0, 65536.0])
    around = [torch.nextafter(borders, torch.full_like(borders, to)) for to in (0.0, 1e9)]
    x = torch.cat([floats(), borders, *around])
    x = torch.cat([x, -x])
    rounded = call(getattr(library, name), x, torch.empty(x.numel(), dtype=torch.uint8))
    expected = reference.bits(x.to(dtype))
    nan = torch.isnan(x)
    if dtype == torch.float8_e4m3fn:
        nan |= x.abs() > 464  # Since version 2.12 torch gives 448 there.
    expected[nan] = reference.CANONICAL_NAN[dtype]
    assert torch.equal(rounded, expected)


def inputs(dtype: torch.dtype, ranks: int) -> list[torch.Tensor]:
    """Return every rank's input: every pattern of few bits, many others of more; whole items."""
    if dtype.itemsize == 1:
        # Of the first two ranks every pair; after them any.
        pairs = torch.cartesian_prod(*[torch.arange(256)] * 2).to(torch.uint8)
        whole = [pairs[:, 0].contiguous(), pairs[:, 1].contiguous()]
        return [
            (whole[rank] if rank < 2 else whole[1].roll(12345 * rank)).view(dtype)
            for rank in range(ranks)
        ]
    bits = [random_bits(rank, 8192, dtype) for rank in range(ranks)]
    ordinary = [random_input(rank, 8192, dtype) for rank in range(ranks)]
    return [torch.cat(both) for both in zip(bits, ordinary, strict=True)]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_are_the_references(
    library: ctypes.CDLL, dtype: torch.dtype, world: int
) -> None:
    asked = inputs(dtype, world)
    whole = torch.cat(asked)
    for op, code in OP_CODES.items():
        if op == SCALED_SUM and not dtype.is_floating_point:
            continue
        for scale in SCALES if op == SCALED_SUM else (None,):
            out = torch.empty_like(asked[0])
            items = out.numel() * out.element_size() // 8
            library.all(
                world,
                DTYPES[dtype],
                code,
                whole.data_ptr(),
                out.data_ptr(),
                items,
                scale_bits(scale) & (1 << 64) - 1,
            )
            expected = reference.all_reduce(asked, "sum" if scale is not None else op, scale)
            assert torch.equal(reference.bits(out), reference.bits(expected)), (op, scale)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_failure_leaves_nan_or_zero(library: ctypes.CDLL, dtype: torch.dtype) -> None:
    out = torch.ones(8 // dtype.itemsize).to(dtype)
    library.spoil(DTYPES[dtype], ctypes.c_void_p(out.data_ptr()))
    assert set(reference.bits(out).tolist()) == {reference.CANONICAL_NAN.get(dtype, 0)}
