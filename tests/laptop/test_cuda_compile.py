"""NVRTC and its cache on disk, without a GPU; what it makes of kernels: test_cuda_code.py."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.compile_only.cuda_builds import Module, expressions
from worldline import ProviderError
from worldline.primitives import nvrtc
from worldline.primitives.cubin_cache import Cubin, read


def compiled(root: Path, arch: str) -> Cubin:
    source = root / "kernels/cuda/all_reduce.cu"
    return nvrtc.compile_cubin(
        source, arch, ("WL_WORLD=2", "WL_RANK=1"), expressions(Module(90, 2, 1))
    )


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep cubins of this session away from the user's."""
    folder = tmp_path_factory.getbasetemp() / "cubins"
    monkeypatch.setenv("WORLDLINE_CACHE", str(folder))
    return folder


def test_the_cache_is_used_and_a_torn_file_is_not(repo_root: Path, cache: Path) -> None:
    first = compiled(repo_root, "sm_90")
    assert set(first.names) == set(expressions(Module(90, 2, 1)))
    (kept,) = [file for file in cache.iterdir() if "-sm_90-" in file.name and first == read(file)]
    torn = kept.read_bytes()[:-7]
    kept.write_bytes(torn)
    assert compiled(repo_root, "sm_90") == first
    assert kept.read_bytes() != torn


def test_ranks_may_compile_at_once(
    repo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLDLINE_CACHE", str(tmp_path / "shared"))
    code = (
        "import sys; from pathlib import Path; from worldline.primitives import nvrtc\n"
        "c = nvrtc.compile_cubin(Path(sys.argv[1]), 'sm_90', ('WL_WORLD=2', 'WL_RANK=0'),"
        " ('ll_one_shot<0, 0, true, 1>',))\n"
        "print(len(c.code), c.names['ll_one_shot<0, 0, true, 1>'])"
    )
    source = str(repo_root / "kernels/cuda/all_reduce.cu")

    def rank(_: int) -> str:
        command = [sys.executable, "-c", code, source]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(rank, range(4)))) == 1
    assert len(list((tmp_path / "shared").iterdir())) == 1


def test_threads_of_a_new_process_may_compile_at_once(repo_root: Path) -> None:
    code = (
        "import sys; from concurrent.futures import ThreadPoolExecutor; from pathlib import Path\n"
        "from worldline.primitives import nvrtc\n"
        "def rank(r):\n"
        "    macros = ('WL_WORLD=8', f'WL_RANK={r}')\n"
        "    names = ('ll_one_shot<0, 0, true, 1>',)\n"
        "    return nvrtc.compile_cubin(Path(sys.argv[1]), 'sm_90', macros, names)\n"
        "with ThreadPoolExecutor(8) as pool: list(pool.map(rank, range(8)))\n"
    )
    source = str(repo_root / "kernels/cuda/all_reduce.cu")
    command = [sys.executable, "-c", code, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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
    source = repo_root / "kernels/cuda/all_reduce.cu"
    parts = [[name] for name in expressions(Module(90, 2, 1))[:2]]
    cubins = nvrtc.compile_cubins(source, "sm_90", ("WL_WORLD=2", "WL_RANK=0"), parts)
    assert here == []
    assert [list(cubin.names) for cubin in cubins] == parts
    assert len(list(tmp_path.iterdir())) == 2


def test_a_refusal_in_a_process_of_its_own_shows_the_log(tmp_path: Path) -> None:
    bad = tmp_path / "bad.cu"
    bad.write_text("template <int N> __global__ void k() { undeclared = N; }")
    with pytest.raises(ProviderError, match="undeclared"):
        nvrtc.compile_cubins(bad, "sm_90", (), [["k<1>"], ["k<2>"]])


@pytest.mark.parametrize("arch", ["sm_90", "sm_120"])
def test_sixteen_ranks_fit(repo_root: Path, arch: str) -> None:
    source = repo_root / "kernels/cuda/all_reduce.cu"
    macros, part = ("WL_WORLD=16", "WL_RANK=7"), "sentinel_two_shot<2, 0, true, true>"
    assert nvrtc.compile_cubin(source, arch, macros, [part]).names
