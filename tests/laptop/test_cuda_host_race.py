"""The CUDA all-reduce as host threads under ThreadSanitizer: bits, the wrap, planted bugs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from worldline.primitives import nvrtc

WRAP = "0xfffffffc"
PLANTED = {
    "single buffer": ("ll.cuh", "(epoch & 1) * half", "(epoch & 0) * half"),
    "one flag checked": (
        "ll.cuh",
        "u32(v.first >> 32) == epoch && u32(v.second >> 32) == epoch",
        "u32(v.first >> 32) == epoch",
    ),
    "an epoch that does not advance": (
        "epochs.cuh",
        "store_u32(epoch_word(arena, word), epoch);",
        "store_u32(epoch_word(arena, word), epoch - 1);",
    ),
}


def build(root: Path, place: Path, world: int, plant: tuple[str, str, str] | None = None) -> Path:
    """Compile the harness for a world size, from a copy of the headers with a bug or without."""
    for folder in (root / "primitives/cuda", root / "kernels/cuda"):
        for file in folder.iterdir():
            shutil.copy(file, place / file.name)
    (place / "layout.cuh").write_text(nvrtc.layout_header())
    if plant is not None:
        name, old, new = plant
        text = (place / name).read_text()
        assert text.count(old) == 1, f"{name} does not hold {old!r} once"
        (place / name).write_text(text.replace(old, new))
    # GCC has no ThreadSanitizer model of fences; nothing here relies on one for plain data.
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-tsan"]
    flags = ["-std=c++20", "-O1", "-g", "-fsanitize=thread", "-pthread", f"-DWL_WORLD={world}"]
    source = root / "tests/host_cuda/race.cpp"
    command = ["g++", *flags, *warnings, f"-I{place}", str(source), "-o", str(place / "race")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return place / "race"


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize("world", [3])
def test_threads_agree_with_the_sum(
    world: int, repo_root: Path, tmp_path: Path, require_tool: Callable[[str], str]
) -> None:
    require_tool("g++")
    program = build(repo_root, tmp_path, world)
    for shots in ("1", "2"):
        for epoch in ("0", WRAP):
            for count in ("90", "256"):
                done = run(program, "20", count, shots, epoch, "60000")
                assert done.returncode == 0, done.stdout + done.stderr
                assert "WARNING" not in done.stderr, done.stderr


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_caught(
    bug: str, repo_root: Path, tmp_path: Path, require_tool: Callable[[str], str]
) -> None:
    require_tool("g++")
    program = build(repo_root, tmp_path, 3, PLANTED[bug])
    # One item a thread: with more, a thread is seldom a whole operation ahead of another.
    ends = (run(program, "400", "16", "1", "0", "1000").returncode for _ in range(20))
    assert any(end in (1, 2) for end in ends)
