"""The CUDA collectives of parts under ThreadSanitizer: bytes, the wrap, planted bugs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from worldline.kernels.parts import RULES
from worldline.primitives import nvrtc

WRAP = "0xfffffffc"
PLANTED = {
    "a ring whose senders hear nothing": (
        ("ll128", "broadcast"),
        (
            "parts.cuh",
            "((RING && other) || (pass == 0",
            "((RING && other && WORLD == 0) || (pass == 0",
        ),
    ),
    "a ring of one place": (
        ("ll128", "all_gather"),
        ("parts.cuh", "((pass & 1) * N + i)", "((pass & 0) * N + i)"),
    ),
    "passes that look alike": (
        ("ll128", "all_gather"),
        ("ll128.cuh", "u32(epoch + pass)", "u32(epoch + 0 * pass)"),
    ),
    "no token": (
        ("ll", "broadcast"),
        ("parts.cuh", "(pass == 0 && thread_index() < TOKEN)", "(pass == 1 && thread_index() < 0)"),
    ),
    "parts of the next rank": (
        ("ll", "all_to_all"),
        (
            "parts.cuh",
            "const int peer = SAME ? RANK : at;",
            "const int peer = SAME ? RANK : (at + 1) % WORLD;",
        ),
    ),
}


def build(root: Path, place: Path, plant: tuple[str, str, str] | None = None) -> Path:
    """Compile the harness for three ranks, from a copy of the headers with a bug or without."""
    for folder in (root / "primitives/cuda", root / "kernels/cuda", root / "tests/host_cuda"):
        for file in (*folder.glob("*.cuh"), *folder.glob("*.h")):
            shutil.copy(file, place / file.name)
    (place / "layout.cuh").write_text(nvrtc.layout_header())
    if plant is not None:
        name, old, new = plant
        text = (place / name).read_text()
        assert text.count(old) == 1, f"{name} does not hold {old!r} once"
        (place / name).write_text(text.replace(old, new))
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-tsan"]
    flags = ["-std=c++20", "-O1", "-g", "-fsanitize=thread", "-pthread", "-DWL_WORLD=3"]
    source = root / "tests/host_cuda/parts.cpp"
    warnings = warnings if plant is None else ["-w"]
    command = ["g++", *flags, *warnings, f"-I{place}", str(source), "-o", str(place / "parts")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return place / "parts"


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, check=False, timeout=120
    )


def test_every_rank_gets_its_bytes(
    repo_root: Path, tmp_path: Path, require_tool: Callable[[str], str]
) -> None:
    require_tool("g++")
    program = build(repo_root, tmp_path)
    for protocol, collective, epoch, most in product(
        ("ll", "ll128"), RULES, ("0", WRAP), ("40", "5000")
    ):
        done = run(program, protocol, collective, "20", most, epoch, "60000")
        assert done.returncode == 0, f"{protocol} {collective}: {done.stdout}{done.stderr}"
        assert "WARNING" not in done.stderr, done.stderr


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_caught(
    bug: str, repo_root: Path, tmp_path: Path, require_tool: Callable[[str], str]
) -> None:
    require_tool("g++")
    call, plant = PLANTED[bug]
    program = build(repo_root, tmp_path, plant)
    ends = (run(program, *call, "200", "5000", "0", "2000").returncode for _ in range(10))
    assert any(end in (1, 2) for end in ends)
