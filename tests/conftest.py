"""What every kind of test shares: the repository's files, and skips that say their reason."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STRICT = os.environ.get("WORLDLINE_STRICT") == "1"
APT_PACKAGES = {"ibv_devinfo": "ibverbs-utils"}


def absent(reason: str) -> None:
    """Skip for want of something installable; in strict mode (CI) fail: all is tested there."""
    if STRICT:
        pytest.fail(f"WORLDLINE_STRICT=1: {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def require_tool() -> Callable[[str], str]:
    """Give a function that returns the path of an executable, or skips (strict: fails)."""

    def require(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            absent(f"needs {name}: apt-get install {APT_PACKAGES.get(name, name)}")
        return str(path)

    return require


@pytest.fixture(scope="session")
def require_module() -> Callable[[str], None]:
    """Give a function that skips (strict: fails) where a Python module is not installed."""

    def require(name: str) -> None:
        spec = importlib.util.find_spec(name)
        # A folder of that name in the repository would pass for a namespace package.
        if spec is None or spec.origin is None:
            absent(f"needs {name}: pip install {name}")

    return require


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """Give the root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def repo_files(require_tool: Callable[[str], str]) -> list[Path]:
    """Give the paths, relative to the root, of tracked files and of new ones not ignored."""
    listing = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    command = [require_tool("git"), "-C", str(ROOT), *listing]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        absent("needs a git checkout: this tree is not one")
    names = sorted(set(done.stdout.split("\0")) - {""})
    return [Path(name) for name in names if (ROOT / name).is_file()]


@pytest.fixture
def repo_copy(repo_files: list[Path], tmp_path: Path) -> Path:
    """Give a copy of the repository's files, to build or set up in without leaving traces."""
    for file in repo_files:
        target = tmp_path / "repo" / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, target)
    return tmp_path / "repo"


def missing_hardware(marker: str) -> str | None:
    """Return why a test with this marker cannot run here, None where it can."""
    if marker == "rdma":
        devices = Path("/sys/class/infiniband")
        there = devices.is_dir() and any(devices.iterdir())
        return None if there else "needs an RDMA device: /sys/class/infiniband shows none"
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    needed = {"gpu": 1, "multigpu": 2}[marker]
    return None if gpus >= needed else f"needs {needed} NVIDIA GPU(s): torch sees {gpus}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what this machine's hardware cannot run, strict or not: no script installs a GPU."""
    verdicts: dict[str, str | None] = {}
    for item in items:
        for marker in ("gpu", "multigpu", "rdma"):
            if item.get_closest_marker(marker):
                if marker not in verdicts:
                    verdicts[marker] = missing_hardware(marker)
                if reason := verdicts[marker]:
                    item.add_marker(pytest.mark.skip(reason=reason))
