"""A CUDA build of torch is announced with its size before it is downloaded; a CPU build is not."""

from pathlib import Path
from typing import Any

from tools import download_size


def report(**wheels: str) -> dict[str, Any]:
    """Make the part of pip's installation report that is read."""
    return {
        "install": [
            {"metadata": {"name": name}, "download_info": {"url": url}}
            for name, url in wheels.items()
        ]
    }


CUDA = report(
    torch="t",
    triton="t",
    nvidia_cudnn_cu13="n",
    nvidia_cuda_nvrtc="n",
    nvidia_nccl_cu13="n",
    numpy="x",
)


def test_a_cuda_build_is_announced_with_its_size() -> None:
    words = download_size.announcement(CUDA, size={"t": 400_000_000, "n": 700_000_000}.get)
    assert words is not None
    assert "5 wheels, 2.9 GB." in words
    assert "make INDEX=" in words


def test_unknown_sizes_are_counted_not_guessed() -> None:
    words = download_size.announcement(CUDA, size={"t": 400_000_000}.get)
    assert words is not None
    assert "2 wheels, 0.8 GB and 3 more of unknown size" in words


def test_no_size_known_still_announces() -> None:
    words = download_size.announcement(CUDA, size=lambda url: None)
    assert words is not None
    assert "several GB" in words


def test_a_cpu_build_with_our_own_nvrtc_is_not_announced() -> None:
    plan = report(torch="t", triton="t", nvidia_cuda_nvrtc="n", nvidia_cuda_runtime="n")
    assert download_size.announcement(plan) is None


def test_an_installed_torch_is_not_announced() -> None:
    assert download_size.announcement(report(numpy="x")) is None
    assert download_size.announcement(report()) is None


def test_the_size_of_a_local_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "a b.whl"
    wheel.write_bytes(b"x" * 10)
    assert download_size.size_of(wheel.as_uri()) == 10
    assert download_size.size_of((tmp_path / "none.whl").as_uri()) is None
