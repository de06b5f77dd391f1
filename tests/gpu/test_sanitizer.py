"""compute-sanitizer on all ranks' kernels: accesses, barriers, races of shared memory."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.gpu.places import needs_gpu

TOOL = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"


def sanitized(tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    if shutil.which(TOOL) is None:
        pytest.skip("needs compute-sanitizer, of the CUDA toolkit")
    # The compiler's processes are not to be watched: it made each ten times as slow.
    options = ["--target-processes", "application-only", "--error-exitcode", "9"]
    if tool == "memcheck":
        # cuda.bindings asks for functions that a driver may lack; our own calls raise their errors.
        options += ["--report-api-errors", "no"]
    program = [sys.executable, "-m", "tests.gpu.sanitize", *arguments]
    return subprocess.run(
        [TOOL, "--tool", tool, *options, *program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("tool", "sizes"),
    [
        pytest.param(tool, sizes, marks=needs_gpu)
        for tool, sizes in (
            ("racecheck", "2"),
            ("synccheck", "1 2 3 4 5 6 7 8"),
            ("memcheck", "1 2 3 4 5 6 7 8"),
        )
    ],
)
def test_clean(tool: str, sizes: str) -> None:
    done = sanitized(tool, *sizes.split())
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "exact" in done.stdout
    assert "SUMMARY: 0 hazards" in done.stdout or "SUMMARY: 0 errors" in done.stdout


@pytest.mark.parametrize("tool", [pytest.param("memcheck", marks=needs_gpu)])
def test_a_wild_read_is_seen(tool: str) -> None:
    done = sanitized(tool, "wild")
    assert done.returncode != 0
    assert "Invalid __global__ read" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]
