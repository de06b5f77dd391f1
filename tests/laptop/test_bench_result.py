"""What the bench keeps: ratios to peers, peers that fail, a plot."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from worldline.bench.rows import Row, ratios
from worldline.bench_plot import plot
from worldline.cli import main


def rows(*points: tuple[str, bool, float | None, bool | None]) -> list[dict[str, Any]]:
    """Make rows of one size: name, whether a peer, time, whether exact."""
    return [
        Row(name, peer, "bfloat16", 1024, exact, time, 0.0).as_dict()
        for name, peer, time, exact in points
    ]


def test_ratios_compare_the_fastest() -> None:
    measured = rows(
        ("ours", False, 3.0, True),
        ("ours too", False, 2.0, True),
        ("ours, no deadline", False, 1.0, None),
        ("wrong", False, 0.5, False),
        ("NCCL", True, 8.0, None),
        ("NCCL window", True, 4.0, None),
        ("PyTorch", True, 1.0, None),
    )
    assert ratios(measured, "NCCL") == {"bfloat16 1024": 0.5}
    assert ratios(measured, "PyTorch") == {"bfloat16 1024": 2.0}
    assert ratios(measured, "NCCL", "host_microseconds") == {}


def test_a_peer_that_is_absent_is_a_row_with_its_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "result.json"
    command = ["bench", "all-reduce", "--ranks", "2", "--sizes", "64", "--repeats", "1"]
    assert main([*command, "--peer", "no_such_library", "--save", str(kept), "--json"]) == 0
    capsys.readouterr()
    found = {row["algorithm"]: row for row in json.loads(kept.read_text())["rows"]}
    assert "No module named 'no_such_library'" in found["no_such_library"]["reason"]
    assert found["torch gloo"]["reason"] is None
    assert found["torch gloo"]["peer"]


def test_a_plot_has_a_line_for_each(
    tmp_path: Path, require_module: Callable[[str], None], repo_root: Path
) -> None:
    require_module("matplotlib")
    file = tmp_path / "bench.svg"
    results = repo_root / "bench/results/all_reduce_2_h200_nvlink.json"
    plot(json.loads(results.read_text()), file)
    assert file.read_text().count('id="legend_1"') == 1
    assert file.stat().st_size > 10_000
