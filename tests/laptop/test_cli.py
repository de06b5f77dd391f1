"""The command line, as a person types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from worldline import InvalidArgument, __version__
from worldline.kernels.registry import algorithms
from worldline.units import parse_dtype, parse_size, show_size


def worldline(*arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "worldline", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_version() -> None:
    assert worldline("--version").stdout == f"worldline {__version__}\n"


def test_no_command_shows_the_commands() -> None:
    done = worldline()
    assert done.returncode == 2
    for command in ("demo", "bench", "explain", "doctor"):
        assert command in worldline("--help").stdout


def test_explain() -> None:
    document = json.loads(worldline("explain", "--size", "1M", "--ranks", "4", "--json").stdout)
    assert document["algorithm"] == "ll_two_shot"
    assert document["chunks"] == 2
    text = worldline("explain", "--size", "1K").stdout
    assert "ll_one_shot" in text
    assert "why:" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explain", "--dtype", "f31"), "InvalidArgument: dtype='f31'"),
        (("explain", "--dtype", "int32"), "UnsupportedError"),
        (("explain", "--size", "12Q"), "size='12Q'"),
        (("explain", "--ranks", "99"), "world_size=99"),
        (("bench", "all-reduce", "--ranks", "0"), "ranks=0"),
        (("bench", "all-reduce", "--repeats", "0"), "repeats=0"),
    ],
)
def test_bad_arguments_are_named(arguments: tuple[str, ...], words: str) -> None:
    done = worldline(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor() -> None:
    report = json.loads(worldline("doctor", "--json").stdout)
    assert {row["state"] for row in report["algorithms"]} == {"works"}
    assert {row["algorithm"] for row in report["algorithms"]} == {
        row.name for row in algorithms("all_reduce")
    }
    assert report["providers"] == {"host": None}
    text = worldline("doctor", "--no-check").stdout
    assert "provider host: available" in text
    assert "not run" in text


def test_bench(tmp_path: Path) -> None:
    kept = tmp_path / "result.json"
    done = worldline(
        *("bench", "all-reduce", "--ranks", "2", "--sizes", "1K,4K", "--dtypes", "f32,bf16"),
        *("--repeats", "2", "--save", str(kept), "--json"),
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result == json.loads(kept.read_text())
    assert "no measure of speed" in result["note"]
    assert result["fingerprint"]["packages"]["torch"]
    ours = [row for row in result["rows"] if row["algorithm"] != "torch gloo"]
    assert len(ours) == 2 * 2 * len(algorithms("all_reduce"))
    assert all(row["exact"] for row in ours)
    assert all(row["microseconds"] > 0 for row in result["rows"])


def test_sizes_and_dtypes() -> None:
    assert [parse_size(text) for text in ("7", "4k", "4KiB", "2MB", "1G")] == [
        7,
        4096,
        4096,
        2 << 20,
        1 << 30,
    ]
    assert [show_size(n) for n in (7, 4096, 3 << 20, 1 << 30)] == ["7 B", "4 KB", "3 MB", "1 GB"]
    assert str(parse_dtype("bf16")) == "torch.bfloat16"
    for text in ("", "0", "-1", "1.5K", "K"):
        with pytest.raises(InvalidArgument):
            parse_size(text)
