"""What the bench keeps: ratios to peers, peers that fail, a plot."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from worldline import ProviderError, bench_command
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


def test_a_peer_that_fails_is_a_row_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "failing_peer.py").write_text(
        "class Failing:\n"
        "    def all_reduce(self, x): raise RuntimeError('out of luck')\n"
        "    def close(self): pass\n"
        "def make(*given): return Failing()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    kept = tmp_path / "kept.json"
    # A byte is no whole element: inputs hold one at least.
    command = ["bench", "all-reduce", "--ranks", "2", "--sizes", "1", "--dtypes", "f32"]
    assert main([*command, "--peer", "failing_peer", "--save", str(kept), "--json"]) == 0
    capsys.readouterr()
    found = {row["algorithm"]: row for row in json.loads(kept.read_text())["rows"]}
    assert found["failing_peer"]["reason"] == "RuntimeError: out of luck"
    assert found["torch gloo"]["microseconds"] is not None


@pytest.mark.parametrize(
    ("gpus", "given", "ranks"), [(2, [], 2), (0, [], 4), (2, ["--ranks", "1"], 1)]
)
def test_a_rank_for_each_gpu(
    monkeypatch: pytest.MonkeyPatch, gpus: int, given: list[str], ranks: int
) -> None:
    monkeypatch.delenv("WORLDLINE_PROVIDER")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    asked: list[int] = []

    def no_spawn(work: object, ranks: int, *rest: object, **options: object) -> None:
        asked.append(ranks)
        raise ProviderError("none here")

    monkeypatch.setattr(bench_command, "spawn", no_spawn)
    assert main(["bench", "all-reduce", *given]) == 2
    assert asked == [ranks]


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


def run_bench(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, list[object]]:
    """Run the bench with a measurement that takes no time; its status, and the runs of it."""
    runs: list[object] = []

    def measure(*args: object, **_: object) -> list[list[dict[str, Any]]]:
        runs.append(args)
        return [rows(("ours", False, 3.0, True))]

    monkeypatch.setattr(bench_command, "spawn", measure)
    return main(["bench", "all-reduce", "--ranks", "1", "--provider", "host", *arguments]), runs


@pytest.mark.parametrize("name", ["bench.badsuffix", "bench", "bench."])
def test_a_plot_of_no_known_format_is_refused_before_measuring(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    require_module: Callable[[str], None],
) -> None:
    require_module("matplotlib")
    assert run_bench(monkeypatch, "--plot", str(tmp_path / name)) == (2, [])
    printed = capsys.readouterr().err
    assert f"InvalidArgument: plot='{tmp_path / name}': must end in one of " in printed
    assert ".svg" in printed


def test_a_plot_without_matplotlib_is_refused_before_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backend_bases", None)
    assert run_bench(monkeypatch, "--plot", str(tmp_path / "bench.svg")) == (2, [])
    printed = capsys.readouterr().err
    assert f"InvalidArgument: plot='{tmp_path / 'bench.svg'}': needs matplotlib" in printed


def test_a_result_is_printed_and_kept_though_its_plot_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    require_module: Callable[[str], None],
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    require_module("matplotlib")
    monkeypatch.setattr(bench_command, "plot", fail)
    kept = tmp_path / "result.json"
    drawn = str(tmp_path / "bench.SVG")
    with pytest.raises(OSError, match="the disk is full"):
        run_bench(monkeypatch, "--save", str(kept), "--plot", drawn, "--json")
    assert json.loads(capsys.readouterr().out) == json.loads(kept.read_text())
