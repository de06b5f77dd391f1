"""The CUDA kernels as NVRTC compiles them, without a GPU, for every architecture."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from worldline import ProviderError
from worldline.kernels.cuda_launch import ENTRIES, expression
from worldline.kernels.registry import DTYPES
from worldline.primitives import nvrtc
from worldline.primitives.cubin_cache import Cubin, unpack

ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
EXPRESSIONS = tuple(
    expression(entry, dtype, wide, loops)
    for entry in ENTRIES
    for dtype in DTYPES
    for wide in (False, True)
    for loops in (False, True)
)


def compiled(root: Path, arch: str, world: int = 2) -> Cubin:
    source = root / "kernels/cuda/all_reduce_ll.cu"
    return nvrtc.compile_cubin(source, arch, (f"WL_WORLD={world}", "WL_RANK=1"), EXPRESSIONS)


def tool(name: str, *arguments: str) -> str:
    """Run a disassembler of Triton's wheel."""
    import triton

    path = Path(triton.__file__).parent / "backends/nvidia/bin" / name
    return subprocess.run(
        [str(path), *arguments], capture_output=True, text=True, check=True
    ).stdout


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep cubins of this session away from the user's."""
    folder = tmp_path_factory.getbasetemp() / "cubins"
    monkeypatch.setenv("WORLDLINE_CACHE", str(folder))
    return folder


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_architecture_keeps_the_accesses(arch: str, repo_root: Path, tmp_path: Path) -> None:
    cubin = tmp_path / "kernels.cubin"
    result = compiled(repo_root, arch)
    assert set(result.names) == set(EXPRESSIONS)
    cubin.write_bytes(result.code)
    usage = re.findall(r"REG:(\d+) STACK:(\d+)", tool("cuobjdump", "-res-usage", str(cubin)))
    assert len(usage) == len(EXPRESSIONS)
    assert max(int(registers) for registers, _ in usage) <= 64
    assert {stack for _, stack in usage} == {"0"}
    sass = tool("nvdisasm", "-c", str(cubin))
    assert "STG.E.128.STRONG.SYS" in sass
    assert "LDG.E.128.STRONG.SYS" in sass
    assert not re.search(r"\b(STL|LDL)\b", sass)
    assert not re.search(r"STG\.E\.128(?!\.STRONG\.SYS)", sass)
    # Dependent launch exists from sm_90 on: the wait for the predecessor is an ACQBULK.
    assert ("ACQBULK" in sass) == (int(arch.removeprefix("sm_")) >= 90)


def test_eight_ranks_do_not_spill(repo_root: Path, tmp_path: Path) -> None:
    cubin = tmp_path / "kernels.cubin"
    cubin.write_bytes(compiled(repo_root, "sm_90", world=8).code)
    usage = re.findall(r"REG:(\d+) STACK:(\d+)", tool("cuobjdump", "-res-usage", str(cubin)))
    assert {stack for _, stack in usage} == {"0"}
    assert max(int(registers) for registers, _ in usage) <= 96


def test_the_cache_is_used_and_a_torn_file_is_not(repo_root: Path, cache: Path) -> None:
    first = compiled(repo_root, "sm_90")
    (kept,) = [file for file in cache.iterdir() if "-sm_90-" in file.name and first == read(file)]
    torn = kept.read_bytes()[:-7]
    kept.write_bytes(torn)
    assert compiled(repo_root, "sm_90") == first
    assert kept.read_bytes() != torn


def read(file: Path) -> Cubin | None:
    return unpack(file.read_bytes())


def test_ranks_may_compile_at_once(
    repo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLDLINE_CACHE", str(tmp_path / "shared"))
    code = (
        "import sys; from pathlib import Path; from worldline.primitives import nvrtc\n"
        "c = nvrtc.compile_cubin(Path(sys.argv[1]), 'sm_90', ('WL_WORLD=2', 'WL_RANK=0'),"
        " ('one_shot<0, true, true>',))\n"
        "print(len(c.code), c.names['one_shot<0, true, true>'])"
    )
    source = str(repo_root / "kernels/cuda/all_reduce_ll.cu")

    def rank(_: int) -> str:
        command = [sys.executable, "-c", code, source]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(rank, range(4)))) == 1
    assert len(list((tmp_path / "shared").iterdir())) == 1


def test_a_refused_source_shows_the_compilers_log(tmp_path: Path) -> None:
    bad = tmp_path / "bad.cu"
    bad.write_text("__global__ void k() { undeclared = 1; }")
    with pytest.raises(ProviderError, match="undeclared"):
        nvrtc.compile_cubin(bad, "sm_90")


def test_a_cache_that_cannot_be_written_is_no_error(
    repo_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLDLINE_CACHE", "/proc/nowhere")
    assert compiled(repo_root, "sm_90").code


def test_parts_are_compiled_in_processes_of_their_own(
    repo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLDLINE_CACHE", str(tmp_path))
    here: list[object] = []
    monkeypatch.setattr(nvrtc, "_compile_here", here.append)
    source = repo_root / "kernels/cuda/all_reduce_ll.cu"
    parts = [[name] for name in EXPRESSIONS[:2]]
    cubins = nvrtc.compile_cubins(source, "sm_90", ("WL_WORLD=2", "WL_RANK=0"), parts)
    assert here == []
    assert [list(cubin.names) for cubin in cubins] == parts
    assert len(list(tmp_path.iterdir())) == 2


def test_a_refusal_in_a_process_of_its_own_shows_the_log(tmp_path: Path) -> None:
    bad = tmp_path / "bad.cu"
    bad.write_text("template <int N> __global__ void k() { undeclared = N; }")
    with pytest.raises(ProviderError, match="undeclared"):
        nvrtc.compile_cubins(bad, "sm_90", (), [["k<1>"], ["k<2>"]])
