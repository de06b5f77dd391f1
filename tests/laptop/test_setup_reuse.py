"""The set-up for a machine that can download nothing, run for real in a copy of the repository."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import setup_env


@pytest.fixture
def offline(repo_copy: Path) -> dict[str, str]:
    """Give an environment in which pip reaches no index, and no folder of wheels either."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON"))}
    return {**environment, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}


def test_reuse_links_to_the_packages_at_hand(
    repo_copy: Path, offline: dict[str, str], tmp_path: Path
) -> None:
    # Beside it, the clone's own folder would pass for a namespace package `worldline`.
    clone = repo_copy.rename(tmp_path / "worldline")
    # sys.executable is a venv's python: its packages are what --system-site-packages misses.
    setup = [sys.executable, "-m", "tools.setup_env"]
    subprocess.run(setup, cwd=clone, env=offline, check=True)
    assert (clone / ".venv/worldline-setup").read_text() == "reuse\n"

    script = tmp_path / "script.py"
    script.write_text(
        "from worldline import __version__; import torch, worldline, worldline.kernels as k\n"
        "print(torch.__file__, worldline.__file__, k.__file__, sep='\\n')\n"
    )

    def run_beside_the_clone() -> subprocess.CompletedProcess[str]:
        command = [clone / ".venv/bin/python", script]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = run_beside_the_clone()
    assert done.returncode == 0, done.stderr
    here = importlib.util.find_spec("torch")
    assert here is not None
    assert done.stdout.splitlines() == [
        here.origin,
        str(clone / "worldline/__init__.py"),
        str(clone / "kernels/__init__.py"),
    ]

    # The packages at hand may have the same line for a Worldline of their own: leave them out.
    (site,) = clone.glob(".venv/lib/*/site-packages")
    (site / "worldline_reuse.pth").unlink()
    assert "No module named 'torch'" in run_beside_the_clone().stderr
    (site / setup_env.FINDER_PTH).unlink()
    assert "cannot import name '__version__'" in run_beside_the_clone().stderr


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
