"""Spin explores every interleaving of the protocols' models, and rejects the planted bugs."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Check = Callable[..., str]

SOUND = [
    ("ll", {"E": 4}),
    ("ll", {"E": 4, "NOT_BEFORE": 1}),
    ("barrier", {"E": 2}),
]
SENTINEL = [
    {"R": 2, "E": 7},
    {"R": 3, "E": 5},
    {"R": 4, "E": 4, "SHAPE": 0},
]
"""All ways to cut passes into launches, or where those are too many, one pass a launch."""
BROKEN = [
    ("ll", {"E": 3, "BUFFERS": 1}, "invalid end state"),
    ("ll", {"E": 3, "BUFFERS": 1, "NOT_BEFORE": 1}, "assertion violated (data"),
    ("barrier", {"E": 2, "EQUALITY": 1}, "invalid end state"),
    ("barrier", {"E": 2, "ONE_BARRIER": 1}, "assertion violated (staged"),
    ("sentinel", {"E": 5, "SHAPE": 8, "STAGES": 2}, "invalid end state"),
    ("sentinel", {"E": 5, "SHAPE": 8, "STAGES": 1}, "assertion violated (slot"),
    ("sentinel", {"E": 5, "SHAPE": 8, "RELAXED": 1}, "invalid end state"),
    ("sentinel", {"E": 5, "SHAPE": 8, "NO_TOKEN_WAIT": 1}, "invalid end state"),
    ("sentinel", {"E": 5, "SHAPE": 8, "BEHIND": 1}, "invalid end state"),
    ("sentinel", {"E": 5, "SHAPE": 8, "EARLY": 1}, "invalid end state"),
    ("sentinel", {"E": 5, "SHAPE": 8, "EQUALITY": 1}, "invalid end state"),
    ("sentinel", {"E": 5, "SHAPE": 8, "REARM_NEXT": 1}, "invalid end state"),
]


@pytest.fixture
def check(require_tool: Callable[[str], str], repo_root: Path, tmp_path: Path) -> Check:
    """Give a function that checks a model and returns what the checker printed."""
    spin, gcc = require_tool("spin"), require_tool("gcc")

    def run(model: str, defines: dict[str, int]) -> str:
        source = repo_root / "tests" / "models" / f"{model}.pml"
        flags = [f"-D{name}={value}" for name, value in defines.items()]
        for command in (
            [spin, "-a", *flags, str(source)],
            [gcc, "-O2", "-w", "-DSAFETY", "-o", "pan", "pan.c"],
            ["./pan", "-m100000"],
        ):
            done = subprocess.run(
                command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240
            )
            assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize(("model", "defines"), SOUND, ids=lambda value: str(value))
def test_protocol_holds(check: Check, model: str, defines: dict[str, int], ranks: int) -> None:
    _holds(check(model, {"R": ranks, **defines}))


@pytest.mark.parametrize("defines", SENTINEL, ids=lambda value: str(value))
def test_the_sentinel_holds(check: Check, defines: dict[str, int]) -> None:
    _holds(check("sentinel", defines))


def _holds(printed: str) -> None:
    assert "errors: 0" in printed, printed
    # Every statement was reached: a model that stops early would hold as well. And the search was
    # not cut off at a depth.
    assert "max search depth too small" not in printed, printed
    assert "(0 of" in printed, printed
    assert printed.count("\t(0 of") == printed.count("unreached in "), printed


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(("model", "defines", "how"), BROKEN, ids=lambda value: str(value))
def test_planted_bug_is_found(
    check: Check, model: str, defines: dict[str, int], how: str, ranks: int
) -> None:
    printed = check(model, {"R": ranks, **defines})
    assert how in printed, printed
