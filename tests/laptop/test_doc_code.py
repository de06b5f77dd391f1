"""Code blocks in the pages run: Python as a script, or under torchrun where the block says so."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def blocks(language: str) -> list[tuple[str, str]]:
    """Return (place, code) of each fenced block of ``language`` in the pages."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
    found = []
    for page in pages:
        for number, block in enumerate(BLOCK.finditer(page.read_text())):
            if block[1] == language:
                found.append((f"{page.relative_to(ROOT)}#{number}", block[2]))
    return found


def command_for(code: str, script: Path) -> list[str]:
    """Return how to run a block: under torchrun if its first line is a comment naming that."""
    first = code.partition("\n")[0]
    under_torchrun = first.startswith("#") and "torchrun" in first
    return [sys.executable, *(TORCHRUN if under_torchrun else []), str(script)]


PYTHON_BLOCKS = blocks("python")


@pytest.mark.parametrize("code", [b[1] for b in PYTHON_BLOCKS], ids=[b[0] for b in PYTHON_BLOCKS])
def test_the_python_block_runs(code: str, tmp_path: Path) -> None:
    script = tmp_path / "block.py"
    script.write_text(code)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command_for(code, script),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_has_its_quickstart() -> None:
    assert any("torchrun" in code and place.startswith("README") for place, code in PYTHON_BLOCKS)


def test_every_make_command_in_the_pages_exists(require_tool: Callable[[str], str]) -> None:
    commands = [
        shlex.split(line, comments=True)[1:]
        for language in ("sh", "bash")
        for _, code in blocks(language)
        for line in code.splitlines()
        if line.startswith("make ")
    ]
    assert commands
    for arguments in commands:
        done = subprocess.run(
            [require_tool("make"), "--dry-run", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
