"""Kernels of further dtypes and operations compile for sm_90, and stay in the registers.

What else must hold of compiled kernels, the other tests ask of common dtypes' sums.
"""

from __future__ import annotations

import re

import pytest
import torch

from tests.compile_only import builds
from tests.compile_only.cases import Case
from tests.compile_only.cuda_builds import resources
from worldline.kernels.cuda_launch import ROWS, expression
from worldline.kernels.launch import REGISTERS as TRITON_REGISTERS
from worldline.kernels.numerics import DTYPES, OP_CODES, SCALED_SUM
from worldline.kernels.registry import dtype_name
from worldline.primitives.nvrtc import REGISTERS

# The widest elements, the narrowest, what wraps, and each operation once.
PAIRS = (
    (torch.float64, "min"),
    (torch.float8_e4m3fn, "avg"),
    (torch.float8_e5m2, "sum"),
    (torch.int64, "avg"),
    (torch.uint8, "prod"),
    (torch.bfloat16, SCALED_SUM),
    (torch.int32, "max"),
)


def test_each_operation_and_width_is_there() -> None:
    assert {operation for _, operation in PAIRS} == set(OP_CODES)
    assert {dtype.itemsize for dtype, _ in PAIRS} == {dtype.itemsize for dtype in DTYPES}


def test_cuda(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLDLINE_CACHE", str(tmp_path_factory.getbasetemp() / "cubins"))
    names = [
        expression(row, dtype, operation, wide, batch)
        for row in ROWS
        for dtype, operation in PAIRS
        for wide, batch in ((False, 0), (True, row.batches(3)[-1]))
        if row.kernel in ("ll_one_shot", "sentinel_one_shot")
        and row.refuses_numbers(dtype, operation) is None
    ]
    used = resources("sm_90", 3, 1, names)
    assert [name for name, (_, stack) in used.items() if stack] == []
    assert max(registers for registers, _ in used.values()) <= REGISTERS


def test_triton() -> None:
    wanted = [
        Case(
            *("ll_one_shot", 90, 3, 2, dtype_name(dtype), dtype.itemsize),
            op="sum" if operation == SCALED_SUM else operation,
            scale=0.3 if operation == SCALED_SUM else None,
        )
        for dtype, operation in PAIRS
    ]
    _, made = builds.build([(case, None) for case in wanted])
    for build in made:
        assert build.stack == 0, build.case
        assert build.registers <= TRITON_REGISTERS, build.case
        # A decoded e4m3 is an exact product, which may be added at once.
        contracted = re.findall(r"\bfma\.\S+", build.ptx)
        assert build.case.dtype == "float8_e4m3fn" or contracted == [], build.case
        assert re.findall(r"\bdiv\.(?:full|approx)\S*", build.ptx) == [], build.case
