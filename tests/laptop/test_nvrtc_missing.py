"""What keeps NVRTC from compiling is named for what it is, by the compiler and by doctor."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from worldline import ProviderError, doctor
from worldline.primitives import nvrtc, nvrtc_program


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a kernel that no cache has yet."""
    monkeypatch.setenv("WORLDLINE_CACHE", str(tmp_path / "cubins"))
    source = tmp_path / "kernel.cu"
    source.write_text('extern "C" __global__ void k() {}')
    return source


def test_a_library_that_is_gone(kernel: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from cuda import pathfinder\n"
        "def gone(name): raise pathfinder.DynamicLibNotFoundError(f'no lib{name}.so')\n"
        "pathfinder.load_nvidia_dynamic_lib = gone\n"
        "from worldline import doctor; from worldline.primitives import nvrtc\n"
        "print(doctor.examine(run_kernels=False)['missing']['NVRTC'])\n"
        "nvrtc.compile_cubin(Path(sys.argv[1]), 'sm_90')\n"
    )
    command = [sys.executable, "-c", code, str(kernel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "--force-reinstall nvidia-cuda-nvrtc" in done.stdout
    assert done.stderr.splitlines()[-1].endswith(
        "ProviderError: CUDA kernels need cuda-core and NVRTC (`worldline doctor` says what to "
        "install): no libnvrtc.so"
    )


def test_no_package(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    with pytest.raises(ProviderError, match=r"need cuda-core and NVRTC .*doctor.*cuda\.core"):
        nvrtc.compile_cubin(kernel, "sm_90")


def test_no_temporary_folder(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    with pytest.raises(ProviderError, match=r"set TMPDIR to one .*/proc/nowhere"):
        nvrtc.compile_cubin(kernel, "sm_90")


def test_a_library_that_does_not_load_is_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged() -> None:
        raise OSError("libnvrtc.so.13: file too short")

    monkeypatch.setattr(nvrtc_program, "version", damaged)
    assert nvrtc.compiler_version() is None


def test_doctor_believes_the_library_not_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = doctor.fingerprint()
    facts["packages"]["nvidia-cuda-nvrtc"] = None
    monkeypatch.setattr(doctor, "fingerprint", lambda: facts)
    monkeypatch.setattr(nvrtc, "compiler_version", lambda: (13, 0))
    assert "nvidia-cuda-nvrtc" not in doctor.examine(run_kernels=False)["missing"]
    monkeypatch.setattr(nvrtc, "compiler_version", lambda: None)
    assert "nvidia-cuda-nvrtc" in doctor.examine(run_kernels=False)["missing"]
