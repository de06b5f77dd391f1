"""The examples run as their READMEs say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def run_example(script: Path, *launcher: str) -> str:
    """Run an example and return what it printed."""
    command = [sys.executable, *launcher, str(script)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("launcher", "ranks"), [(TORCHRUN, 2), ([], 4)], ids=["torchrun", "spawn"])
def test_hello_all_reduce(repo_root: Path, launcher: list[str], ranks: int) -> None:
    script = repo_root / "examples/00_hello_all_reduce/hello_all_reduce.py"
    printed = run_example(script, *launcher)
    total = ranks * (ranks + 1) // 2
    for rank in range(ranks):
        assert f"rank {rank} of {ranks}: {rank + 1} -> {total}" in printed
    assert (
        printed.count(f"all_reduce of 1000 x float32 on {ranks} ranks (host): ll_one_shot\n") == 1
    )
    assert [line for line in printed.splitlines() if len(line) > 80] == []


def test_every_example_has_a_readme_that_names_its_scripts(repo_root: Path) -> None:
    folders = [folder for folder in (repo_root / "examples").iterdir() if folder.is_dir()]
    assert folders
    for folder in folders:
        words = (folder / "README.md").read_text()
        assert [s.name for s in folder.glob("*.py") if s.name not in words] == [], folder
