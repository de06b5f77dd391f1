"""compute-sanitizer on all ranks' kernels: accesses, barriers, races of shared memory."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.gpu.places import needs_gpu

TOOL = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"


@pytest.mark.parametrize(
    ("tool", "sizes"),
    [
        pytest.param(tool, sizes, marks=needs_gpu)
        for tool, sizes in (
            ("racecheck", "2"),
            ("synccheck", "1 2 3 4 5 6 7 8"),
            ("memcheck", "1 2 3 4 5 6 7 8"),  # Four minutes.
        )
    ],
)
def test_clean(tool: str, sizes: str) -> None:
    if shutil.which(TOOL) is None:
        pytest.skip("needs compute-sanitizer, of the CUDA toolkit")
    # cuda.bindings asks for functions that a driver may lack; our own calls raise their errors.
    options = ["--report-api-errors", "no"] if tool == "memcheck" else []
    command = [TOOL, "--tool", tool, *options, "--error-exitcode", "9", sys.executable]
    done = subprocess.run(
        [*command, "-m", "tests.gpu.sanitize", *sizes.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "exact" in done.stdout
    assert "SUMMARY: 0 hazards" in done.stdout or "SUMMARY: 0 errors" in done.stdout
