"""The command line, as a person types it."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from worldline import InvalidArgument, ProviderError, bench_command, cli, doctor
from worldline._version import __version__
from worldline.kernels.registry import algorithms
from worldline.screen import wrap
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
    helped = worldline("--help").stdout
    for command in ("demo", "bench", "explain", "doctor"):
        assert command in helped


def test_explain() -> None:
    document = json.loads(worldline("explain", "--size", "1M", "--ranks", "4", "--json").stdout)
    assert document["algorithm"] == "ll_two_shot"
    assert document["chunks"] == 6
    text = worldline("explain", "--size", "1K").stdout
    assert "ll_one_shot" in text
    assert "  why: " in text
    assert [line for line in text.splitlines() if len(line) > 80 or line != line.rstrip()] == []
    assert ", 1 rank, " in worldline("explain", "--ranks", "1").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explain", "--dtype", "f31"), "InvalidArgument: dtype='f31'"),
        (("explain", "--dtype", "int16"), "UnsupportedError"),
        (("explain", "--size", "12Q"), "size='12Q'"),
        (("explain", "--ranks", "99"), "world_size=99"),
        (("bench", "all-reduce", "--ranks", "0"), "ranks=0"),
        (("bench", "all-reduce", "--repeats", "0"), "repeats=0"),
        (("bench", "all-gather", "--op", "max"), "op='max': must be left out"),
        (("bench", "all-reduce", "--save", "/nonexistent/x.json"), "save='/nonexistent/x.json'"),
        (("bench", "all-reduce", "--save", "/"), "save='/'"),
    ],
)
def test_bad_arguments_are_named(arguments: tuple[str, ...], words: str) -> None:
    done = worldline(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_bench_of_an_operation() -> None:
    asked = ("--ranks", "2", "--sizes", "64", "--dtypes", "float8_e5m2,int8", "--op", "min")
    told = json.loads(worldline("bench", "all-reduce", *asked, "--repeats", "1", "--json").stdout)
    assert told["op"] == "min"
    ours = [row for row in told["rows"] if not row["peer"] and row["reason"] is None]
    assert {row["dtype"] for row in ours} == {"float8_e5m2", "int8"}
    assert all(row["exact"] for row in ours)


def no_memory(world: Any, *args: object) -> None:
    if world.rank == 1:
        raise ProviderError("no memory for [two] ranks")


def a_bug(world: Any, *args: object) -> None:
    raise ZeroDivisionError("a bug")


def test_a_ranks_own_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_command, "_rank", no_memory)
    assert cli.main(["bench", "all-reduce", "--ranks", "2"]) == 2
    words = "worldline bench: rank 1: ProviderError: no memory for [two] ranks\n"
    assert capsys.readouterr().err == words


def test_any_other_failure_of_a_rank_is_shown_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_command, "_rank", a_bug)
    assert cli.main(["bench", "all-reduce", "--ranks", "1"]) == 2
    printed = capsys.readouterr().err
    assert "Traceback" in printed
    assert "in a_bug" in printed
    assert "ZeroDivisionError: a bug" in printed


def interrupted(world: Any, *args: object) -> None:
    raise KeyboardInterrupt


def test_a_rank_that_was_interrupted_interrupts_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_command, "_rank", interrupted)
    assert cli.main(["bench", "all-reduce", "--ranks", "1"]) == 130
    assert capsys.readouterr().err == ""


def grandchildren(pid: int) -> list[str]:
    """Return the processes that the children of a process have started."""

    def children(parent: str) -> list[str]:
        try:
            return Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        except OSError:
            return []

    return [one for child in children(str(pid)) for one in children(child)]


def test_an_interrupt_ends_without_a_traceback() -> None:
    command = [sys.executable, "-m", "worldline", "bench", "all-reduce", "--repeats", "1000000"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        until = time.monotonic() + 60
        # The children are the rank server and its kin, their children the ranks.
        while len(grandchildren(process.pid)) < 4 and time.monotonic() < until:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        printed = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, *printed) == (130, "", "")


def report_of(run_kernels: bool = True) -> tuple[dict[str, Any], list[str]]:
    """Return doctor's report and its text at 80 columns, which every line must fit."""
    report = doctor.examine(run_kernels)
    screen = io.StringIO()
    doctor._show(report, Console(file=screen, width=80))
    lines = screen.getvalue().splitlines()
    assert [line for line in lines if len(line) > 80 or line != line.rstrip()] == []
    return report, lines


def test_doctor() -> None:
    report = json.loads(worldline("doctor", "--json").stdout)
    assert {row["state"] for row in report["algorithms"]} == {"works"}
    assert {row["algorithm"] for row in report["algorithms"]} == {
        row.name for row in algorithms("all_reduce", "cpu")
    }
    assert report["providers"]["host"] is None
    assert list(report["providers"]) == ["torch", "loopback", "host"]
    text = worldline("doctor", "--no-check").stdout
    assert "provider host: available" in text
    assert "not run" in text


def test_doctor_fits_80_columns() -> None:
    report, lines = report_of()
    rows = [line for line in lines if "bits equal on 2 ranks" in line]
    assert len(rows) == len(report["algorithms"])
    assert [line for line in lines[1:] if line[0] not in " ┏┃┡│└"] == []


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (no_memory, "rank 1: ProviderError: no memory for [two] ranks"),
        (a_bug, "ZeroDivisionError: a bug"),
    ],
)
def test_doctor_says_why_kernels_fail(
    monkeypatch: pytest.MonkeyPatch, work: Callable[..., None], reason: str
) -> None:
    monkeypatch.setattr(doctor, "_check_rank", work)
    report, lines = report_of()
    assert {row["state"] for row in report["algorithms"]} == {"fails"}
    assert [
        row["reason"] for row in report["algorithms"] if not row["reason"].endswith(reason)
    ] == []
    assert len([line for line in lines if line.endswith(reason)]) == 1
    assert "Traceback" not in "".join(lines)


def test_doctor_says_once_what_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    class Absent:
        def unavailable(self) -> str:
            return "its memory is not writable; " + "mount it read-write " * 4

    monkeypatch.setattr(doctor, "PROVIDERS", {"absent": Absent})
    report, lines = report_of()
    assert report["algorithms"] == []
    assert (
        len([line for line in lines if "provider absent: its memory is not writable" in line]) == 1
    )


def test_doctor_prints_remedies_as_they_are_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = doctor.fingerprint()
    facts["packages"] = dict.fromkeys(facts["packages"])
    monkeypatch.setattr(doctor, "fingerprint", lambda: facts)
    monkeypatch.setattr(doctor.nvrtc, "compiler_version", lambda: None)
    _, lines = report_of(run_kernels=False)
    assert any("pip install 'cuda-toolkit[nvrtc,cudart]>=13,<14'" in line for line in lines)


def test_wrapped_lines_keep_their_indentation() -> None:
    assert wrap("one two three", 10, indent=1) == "  one two\n    three"
    assert wrap("/a/path-that-is/long", 10) == "/a/path-that-is/long"


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
    assert len(ours) == 2 * 2 * len(algorithms("all_reduce", "cpu"))
    assert all(row["exact"] for row in ours)
    assert all(row["microseconds"] > 0 for row in result["rows"])


def test_bench_of_a_move() -> None:
    done = worldline(
        *("bench", "all-gather", "--ranks", "2", "--sizes", "1,4K", "--dtypes", "int8,f32"),
        *("--repeats", "2", "--json"),
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["collective"] == "all_gather"
    found = {(row["algorithm"], row["exact"]) for row in result["rows"]}
    assert found == {("copy_engine", True), ("torch gloo", None)}
    assert all(row["microseconds"] > 0 for row in result["rows"])


def test_explain_of_a_move() -> None:
    told = worldline("explain", "all_gather", "--size", "64M", "--dtype", "int8", "--arena", "8M")
    assert "copy_engine\n" in told.stdout
    assert "chunks of copies, a barrier of 1 program around each" in told.stdout
    refused = worldline("explain", "all_gather", "--op", "sum")
    assert "copy_engine: an all_gather has no op" in refused.stderr


def test_the_benchs_table_claims_no_speed_of_the_interpreter() -> None:
    done = worldline("bench", "all-reduce", "--ranks", "1", "--sizes", "1K", "--repeats", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("all-reduce, 1 rank, provider host\n")
    assert "torch gloo" in done.stdout
    assert "x of gloo" not in done.stdout
    assert "no measure of speed" in done.stdout


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
