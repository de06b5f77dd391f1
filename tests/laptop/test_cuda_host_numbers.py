"""The host twins of the GPU's conversions, against torch's, for every pattern that matters."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from worldline.kernels import reference

SOURCE = """
#include "ops.cuh"
using namespace worldline;
extern "C" void widen(const u16* in, float* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = half_to_float(in[i]);
}
extern "C" void halves(const float* in, u32* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = floats_to_halves(in[2 * i], in[2 * i + 1]);
}
extern "C" void bfloats(const float* in, u32* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = floats_to_bfloats(in[2 * i], in[2 * i + 1]);
}
"""


@pytest.fixture
def library(repo_root: Path, tmp_path: Path, require_tool: Callable[[str], str]) -> ctypes.CDLL:
    """Compile the conversions as a library."""
    (tmp_path / "numbers.cpp").write_text(SOURCE)
    headers = repo_root / "primitives/cuda"
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", f"-I{headers}"]
    command = [require_tool("g++"), *flags, "numbers.cpp", "-o", "numbers.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    return ctypes.CDLL(str(tmp_path / "numbers.so"))


def call(function: Callable[..., None], x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    function(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(out.data_ptr()), out.numel())
    return out


def test_every_half_widens_as_in_torch(library: ctypes.CDLL) -> None:
    x = torch.arange(-(2**15), 2**15).to(torch.int16)
    wide = call(library.widen, x, torch.empty(2**16))
    expected = x.view(torch.float16).float()
    assert torch.equal(torch.isnan(wide), torch.isnan(expected))
    numbers = ~torch.isnan(expected)
    assert torch.equal(reference.bits(wide)[numbers], reference.bits(expected)[numbers])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounding_is_the_references(library: ctypes.CDLL, dtype: torch.dtype) -> None:
    # All sign, exponent and leading mantissa bits, with the bits that decide a tie set and not.
    high = torch.arange(-(2**15), 2**15, dtype=torch.int64) << 16
    x = torch.cat([(high | low).to(torch.int32) for low in (0, 1, 0x1000, 0x1001, 0x8000, 0x8001)])
    x = torch.cat([x, x ^ 0x2000]).view(torch.float32)
    function = library.halves if dtype == torch.float16 else library.bfloats
    rounded = call(function, x, torch.empty(x.numel() // 2, dtype=torch.int32)).view(dtype)
    expected = x.to(dtype)
    reference.bits(expected)[torch.isnan(x)] = reference.CANONICAL_NAN[dtype]
    assert torch.equal(reference.bits(rounded), reference.bits(expected))
