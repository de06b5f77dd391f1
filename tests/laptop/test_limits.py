"""The kernels that measure the limit: as host threads they end and agree; their table."""

from __future__ import annotations

import ctypes
import io
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from worldline import cli, limits_command
from worldline.bench import limits
from worldline.primitives import nvrtc
from worldline.primitives.fingerprint import fingerprint

SOURCE = """
#include <vector>
#include "limits.cuh"
using namespace worldline;
template <int STEP>
bool both(u64 results[2], u32 rounds) {
  std::vector<std::vector<u64>> arenas(2, std::vector<u64>(LL / 8 + 64));
  u64 notices[2] = {}, base[2];
  for (int rank = 0; rank < 2; ++rank) base[rank] = (u64(arenas[rank].data()) + 15) / 16 * 16;
  auto run = [&](int rank) {
    Limits a{};
    for (int peer = 0; peer < 2; ++peer) a.lane.base[peer] = base[peer];
    a.lane.limit_ns = 20'000'000'000;
    a.lane.notice = u64(&notices[rank]);
    a.lane.rank = rank;
    a.lane.world = 2;
    a.own = base[rank] + LL;
    a.peer = base[1 - rank] + LL;
    a.result = u64(&results[rank]);
    a.rounds = rounds;
    limits<STEP>(a);
  };
  std::thread first(run, 0), second(run, 1);
  first.join();
  second.join();
  return lane_alive(base[0]) && lane_alive(base[1]);
}
extern "C" int run(int step, u64* results, u32 rounds) {
  switch (step) {
    case LOAD: return both<LOAD>(results, rounds);
    case REMOTE_LOAD: return both<REMOTE_LOAD>(results, rounds);
    case FENCE: return both<FENCE>(results, rounds);
    case PING_PONG: return both<PING_PONG>(results, rounds);
    case LL_LOOP: return both<LL_LOOP>(results, rounds);
  }
  return 0;
}
"""
TIMES = {
    "load": 145.0,
    "remote load": 853.0,
    "fence": 202.0,
    "store": 619.0,
    "ll loop": 820.0,
    "hand-over": 450.0,
    "all-reduce": 1460.0,
}


@pytest.fixture(scope="module")
def library(
    repo_root: Path,
    tmp_path_factory: pytest.TempPathFactory,
    require_tool: Callable[[str], str],
) -> ctypes.CDLL:
    """Compile the kernels for the host."""
    place = tmp_path_factory.mktemp("limits")
    (place / "layout.cuh").write_text(nvrtc.layout_header())
    (place / "limits.cpp").write_text(SOURCE)
    folders = [place, repo_root / "bench/cuda", nvrtc.HEADERS]
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", "-pthread", *(f"-I{f}" for f in folders)]
    command = [require_tool("g++"), *flags, "limits.cpp", "-o", "limits.so"]
    subprocess.run(command, cwd=place, check=True)
    return ctypes.CDLL(str(place / "limits.so"))


@pytest.mark.parametrize("step", limits.STEPS[1:])
def test_every_step_ends_with_a_time(library: ctypes.CDLL, step: str) -> None:
    results = (ctypes.c_uint64 * 2)()
    assert library.run(limits.STEPS.index(step), results, 1000)
    assert min(results) > 0


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_the_kernels_compile(arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLDLINE_CACHE", str(tmp_path))
    names = [limits.expression(step) for step in limits.STEPS]
    assert set(nvrtc.compile_cubin(limits.SOURCE, arch, (), names).names) == set(names)


def test_ratios_are_to_the_bounds() -> None:
    found = limits.ratios(TIMES)
    assert found["loop to bound"] == pytest.approx(820 / 764)
    assert found["loop to paper"] == pytest.approx(820 / 909)
    assert found["graph to paper"] == pytest.approx(1460 / 1359)


def test_the_table_fits() -> None:
    screen = io.StringIO()
    limits_command.show(TIMES, Console(file=screen, width=80))
    lines = screen.getvalue().splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert "the loop, to a store and a load: 1.07" in lines


@pytest.mark.skipif(len(fingerprint()["gpus"]) > 1, reason="for machines without two GPUs")
def test_they_need_two_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "limits"]) == 2
    assert "the limits are those of two GPUs: torch sees" in capsys.readouterr().err
