"""The litmus finds torn lines where there are some: on the CPU, whose pairs are two stores."""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compile_only.cuda_builds import tool
from worldline import cli
from worldline.kernels import litmus, litmus_verdict
from worldline.kernels.litmus import TALLIES, Tally
from worldline.primitives import nvrtc
from worldline.primitives.fingerprint import fingerprint

# A thread that stores and one that looks, as block 0 and block 1 of one launch.
SOURCE = """
#include "litmus.cuh"
using namespace worldline;
static_assert(sizeof(Litmus) == 32 && TALLIES == 5);
template <bool REDUCED>
void both(u64* counts, u64 limit_ns) {
  alignas(128) static char line[LINE];
  for (char& byte : line) byte = 0;
  const Litmus a{u64(line), u64(line), u64(counts), limit_ns};
  auto block = [&](u32 index) {
    place.block = index;
    place.blocks = 2;
    litmus<REDUCED>(a);
  };
  std::thread stores(block, 0), looks(block, 1);
  stores.join();
  looks.join();
}
extern "C" void stores(u64* counts, u64 limit_ns) { both<false>(counts, limit_ns); }
extern "C" void reductions(u64* counts, u64 limit_ns) { both<true>(counts, limit_ns); }
"""


@pytest.fixture(scope="module")
def library(
    repo_root: Path,
    tmp_path_factory: pytest.TempPathFactory,
    require_tool: Callable[[str], str],
) -> ctypes.CDLL:
    """Compile the litmus for the host."""
    place = tmp_path_factory.mktemp("litmus")
    (place / "litmus.cpp").write_text(SOURCE)
    (place / "layout.cuh").write_text(nvrtc.layout_header())
    folders = [place, repo_root / "kernels/cuda", nvrtc.HEADERS]
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", "-pthread", *(f"-I{f}" for f in folders)]
    command = [require_tool("g++"), *flags, "litmus.cpp", "-o", "litmus.so"]
    subprocess.run(command, cwd=place, check=True)
    return ctypes.CDLL(str(place / "litmus.so"))


@pytest.mark.parametrize("kind", litmus.KINDS)
def test_it_sees_lines_in_pieces(library: ctypes.CDLL, kind: str) -> None:
    # On a busy machine the two may hardly meet: until they have, a few times at most.
    for _ in range(20):
        counts = (ctypes.c_uint64 * len(TALLIES))()
        getattr(library, kind)(counts, ctypes.c_uint64(200_000_000))
        seen = Tally(kind, *counts)
        if seen.torn_16 and seen.torn_128:
            break
    assert 0 < seen.torn_128 <= seen.looks
    assert seen.torn_16 > 0
    assert 0 < seen.changes <= seen.looks
    # A reduction is four additions here; a store is two of eight bytes each.
    assert kind == "reductions" or seen.torn_8 == 0


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_a_piece_takes_one_access(
    arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLDLINE_CACHE", str(tmp_path))
    cubin = nvrtc.compile_cubin(litmus.SOURCE, arch, (), litmus.expressions())
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin.code)
        file.flush()
        code = tool("nvdisasm", "-c", file.name)
    lines = re.findall(r"\b(?:LDG|STG)\.E\.128[\w.]*|\bREDG?\.E[\w.]*", code)
    wanted = {"LDG.E.128.STRONG.SYS", "STG.E.128.STRONG.SYS"}
    if arch != "sm_80":
        wanted |= {line for line in lines if re.match(r"REDG?\.E\.ADD\.F32x4\..*STRONG\.SYS", line)}
        assert len(wanted) == 3
    assert set(lines) == wanted


def test_ranks_are_summed_by_kind() -> None:
    seen = [Tally("stores", 5, 4, 0, 0, 1), Tally("reductions", 7, 6, 0, 0, 0)]
    assert litmus.add([*seen, *seen]) == [
        Tally("stores", 10, 8, 0, 0, 2),
        Tally("reductions", 14, 12, 0, 0, 0),
    ]


def test_nothing_seen_refutes_nothing() -> None:
    assert Tally("stores", 100, 0, 0, 0, 0).bound == 1.0
    assert Tally("stores", 10**7, 3_000_000, 0, 0, 0).bound == 1e-6


def test_a_verdict_is_kept_for_its_hardware(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLDLINE_CACHE", str(tmp_path / "new"))
    here = {"driver": "580.1", "gpus": [{"name": "one"}], "python": "3.11"}
    assert litmus_verdict.kept(here) is None
    assert "not run yet" in litmus_verdict.in_words(None)
    verdict = {
        "date": "2026-11-30",
        "seconds": 1.0,
        "gpus": ["a", "b"],
        "fewest": {"stores": 8, "reductions": 0},
        "hardware": {name: here[name] for name in ("driver", "gpus")},
        "tallies": [Tally("stores", 9, 8, 0, 0, 0).as_dict()],
    }
    litmus_verdict.keep(verdict)
    assert litmus_verdict.kept({**here, "python": "3.12"}) == verdict
    assert litmus_verdict.kept({**here, "driver": "581.0"}) is None
    words = litmus_verdict.in_words(verdict)
    assert words == "litmus of 2026-11-30: 0 of 8 stores of 128 bytes torn"
    shorter = {**verdict, "seconds": 0.1}
    litmus_verdict.keep(shorter)
    assert litmus_verdict.kept(here) == verdict
    torn = {**verdict, "tallies": [Tally("stores", 9, 8, 0, 0, 1).as_dict()], "seconds": 2.0}
    for later in (torn, {**verdict, "seconds": 9.0}):
        litmus_verdict.keep(later)
        assert litmus_verdict.kept(here) == torn
    of_more = {**verdict, "gpus": ["a", "b", "c"]}
    litmus_verdict.keep(of_more)
    assert litmus_verdict.kept(here) == of_more
    adds = {
        **of_more,
        "tallies": [*of_more["tallies"], Tally("reductions", 9, 8, 0, 0, 1).as_dict()],
    }
    adds["seconds"] = 9.0
    for later in (adds, {**of_more, "seconds": 99.0}):
        litmus_verdict.keep(later)
        assert litmus_verdict.kept(here) == adds
    monkeypatch.setattr(litmus_verdict, "this_machine", lambda: "another")
    assert litmus_verdict.kept(here) is None
    monkeypatch.setenv("WORLDLINE_CACHE", "/proc/nowhere")
    litmus_verdict.keep(verdict)


@pytest.mark.parametrize("text", ["", "7", "[]", "{}", '{"tallies": []}', '{"tallies": [7]}'])
def test_a_file_of_another_shape_is_no_verdict(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLDLINE_CACHE", str(tmp_path))
    here = {"driver": "580.1", "gpus": []}
    litmus_verdict.verdict_file(here).write_text(text)
    assert litmus_verdict.kept(here) is None


def test_what_a_verdict_says_of_lines() -> None:
    whole = [Tally(kind, 10**6, 10**6, 0, 0, 0) for kind in litmus.KINDS]
    known = litmus_verdict.make([whole, whole], ["a", "b"], 1.0)
    assert known["fewest"] == {"stores": 10**6, "reductions": 10**6}
    few = litmus_verdict.make(
        [whole, [Tally(kind, 9, 100, 0, 0, 0) for kind in litmus.KINDS]], [], 1
    )
    for kind, other in (litmus.KINDS, litmus.KINDS[::-1]):
        assert litmus_verdict.why_torn(known, kind) == ""
        assert "too few" in litmus_verdict.why_torn(few, kind)
        torn = litmus_verdict.make([[*whole, Tally(kind, 9, 8, 0, 0, 1)]], ["a"], 1.0)
        assert litmus_verdict.why_torn(torn, kind).startswith("the litmus has seen 1 ")
        assert litmus_verdict.why_torn(torn, other) == ""
        assert "before the first init" in litmus_verdict.why_torn(None, kind)
    alone = litmus_verdict.make([whole[:1]], ["a"], 1.0)
    assert litmus_verdict.why_torn(alone) == ""
    assert "compute capability 9.0" in litmus_verdict.why_torn(alone, litmus.REDUCTIONS)


@pytest.mark.skipif(len(fingerprint()["gpus"]) > 1, reason="for machines without two GPUs")
def test_it_needs_two_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["litmus"]) == 2
    assert "needs 2 ranks or more, each with a GPU of its own" in capsys.readouterr().err
    assert cli.main(["litmus", "--seconds", "0"]) == 2
    assert "seconds=0.0: must be" in capsys.readouterr().err
