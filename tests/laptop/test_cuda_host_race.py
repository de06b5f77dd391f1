"""The CUDA all-reduce as host threads under ThreadSanitizer: bits, the wrap, planted bugs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from worldline.primitives import nvrtc

WRAP = "0xfffffffc"
PROTOCOLS = (
    ("ll", "float32"),
    ("ll128", "float32"),
    *(("ll128_atomic", dtype) for dtype in ("float32", "float16", "bfloat16")),
    ("sentinel", "float32"),
)
_ADVANCE = "store_u32(block_word(arena, offset, word), value);"
PLANTED = {
    "single buffer": ("ll", "epochs.cuh", "(epoch & 1) * half", "(epoch & 0) * half"),
    "one flag checked": (
        "ll",
        "ll.cuh",
        "u32(v.first >> 32) == epoch && u32(v.second >> 32) == epoch",
        "u32(v.first >> 32) == epoch",
    ),
    "an epoch that does not advance": (
        "ll",
        "counters.cuh",
        _ADVANCE,
        _ADVANCE.replace("value)", "value - 1)"),
    ),
    "one half for lines": ("ll128", "epochs.cuh", "(epoch & 1) * half", "(epoch & 0) * half"),
    "a line whose flag is not looked at": (
        "ll128",
        "ll128.cuh",
        "u32(flag(i) != ll128_flag(epoch, pass))",
        "u32(flag(i) == 0)",
    ),
    "sums of whoever has come": (
        "ll128_atomic",
        "ll128_atomic.cuh",
        "u32(flag_of(seen[plane]) != tally_but(RANK, WORLD))",
        "u32(flag_of(seen[plane]) == 0)",
    ),
    "one stage of sums": (
        "ll128_atomic",
        "ll128_atomic.cuh",
        "(turn & 3) * stage",
        "(turn & 0) * stage",
    ),
    "sums that are not zeroed": (
        "ll128_atomic",
        "all_reduce_ll128_atomic.cuh",
        "    if (WORLD > 1 && exchange.alive) sums.empty(place(RANK, item), active);\n",
        "",
    ),
    "one stage": ("sentinel", "sentinel.cuh", "(count & 3) * stage", "(count & 0) * stage"),
    "a slot that is not re-armed": (
        "sentinel",
        "sentinel.cuh",
        "sentinel_rearm(slot(i));",
        "(void)i;",
    ),
    "one word looked at": (
        "sentinel",
        "sentinel.cuh",
        "v.first != EMPTY && v.second != EMPTY",
        "v.first != EMPTY",
    ),
    "all ones sent as they are": (
        "sentinel",
        "sentinel.cuh",
        "word == EMPTY ? other : word",
        "other == EMPTY ? other : word",
    ),
}


def build(root: Path, place: Path, world: int, plant: tuple[str, ...] | None = None) -> Path:
    """Compile the harness for a world size, from a copy of the headers with a bug or without."""
    for folder in (root / "primitives/cuda", root / "kernels/cuda"):
        for file in folder.iterdir():
            shutil.copy(file, place / file.name)
    (place / "layout.cuh").write_text(nvrtc.layout_header())
    if plant is not None:
        _, name, old, new = plant
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
    for (protocol, dtype), shots, epoch, count in product(
        PROTOCOLS, "12", ("0", WRAP), ("92", "256", "600")
    ):
        if (protocol, shots) == ("ll128_atomic", "1"):
            continue  # A two-shot, whose results have no place in one shot's slots.
        done = run(program, protocol, dtype, "20", count, shots, epoch, "60000")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "WARNING" not in done.stderr, done.stderr


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_caught(
    bug: str, repo_root: Path, tmp_path: Path, require_tool: Callable[[str], str]
) -> None:
    require_tool("g++")
    program = build(repo_root, tmp_path, 3, PLANTED[bug])
    # One item a thread: with more, a thread is seldom a whole operation ahead of another.
    protocol = PLANTED[bug][0]
    count = {"ll": "16", "ll128": "240", "ll128_atomic": "720", "sentinel": "32"}[protocol]
    shots = "2" if protocol == "ll128_atomic" else "1"
    ends = (
        run(program, protocol, "float32", "400", count, shots, "0", "1000").returncode
        for _ in range(20)
    )
    assert any(end in (1, 2) for end in ends)
