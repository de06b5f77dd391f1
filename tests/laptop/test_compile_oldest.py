"""The oldest Triton that Worldline supports interprets the all-reduces right, to the bit."""

import subprocess
import sys
from pathlib import Path

from tests.compile_only.builds import environment
from tests.compile_only.older import OLDEST


def test_its_interpreter_gives_the_same_bits(repo_root: Path, oldest_triton: Path | None) -> None:
    command = [sys.executable, "-m", "tests.compile_only.interpreted"]
    done = subprocess.run(
        command,
        cwd=repo_root,
        env=environment(oldest_triton),
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split("\n", 1) == [OLDEST, ""]
