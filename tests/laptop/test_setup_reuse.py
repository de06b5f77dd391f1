"""The set-up for a machine that can download nothing, run for real in a copy of the repository."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def offline(repo_copy: Path) -> dict[str, str]:
    """Give an environment in which pip reaches no index, and no folder of wheels either."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON"))}
    return {**environment, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}


def test_reuse_links_to_the_packages_at_hand(
    repo_copy: Path, offline: dict[str, str], tmp_path: Path
) -> None:
    # sys.executable is a venv's python: its packages are what --system-site-packages misses.
    setup = [sys.executable, "-m", "tools.setup_env"]
    subprocess.run(setup, cwd=repo_copy, env=offline, check=True)
    assert (repo_copy / ".venv/worldline-setup").read_text() == "reuse\n"

    program = "import torch, worldline.kernels as k; print(torch.__file__); print(k.__file__)"
    python = repo_copy / ".venv/bin/python"
    done = subprocess.run(
        [python, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    torch_file, kernels_file = done.stdout.split()
    here = importlib.util.find_spec("torch")
    assert here is not None
    assert torch_file == here.origin
    assert Path(kernels_file) == repo_copy / "kernels/__init__.py"


def test_a_bare_python_offline_is_told_what_to_do(repo_copy: Path, offline: dict[str, str]) -> None:
    bare = repo_copy.parent / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    setup = [bare / "bin/python", "-m", "tools.setup_env", "--path", "reuse"]
    done = subprocess.run(
        setup, cwd=repo_copy, env=offline, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Nothing to reuse" in done.stderr
    assert "No module named" in done.stderr
