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


def run_block(code: str, folder: Path) -> str:
    """Run a block as a script in a folder; return what it printed."""
    script = folder / "block.py"
    script.write_text(code)
    done = subprocess.run(
        command_for(code, script),
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


PYTHON_BLOCKS = blocks("python")


@pytest.mark.parametrize("code", [b[1] for b in PYTHON_BLOCKS], ids=[b[0] for b in PYTHON_BLOCKS])
def test_the_python_block_runs(code: str, tmp_path: Path) -> None:
    run_block(code, tmp_path)


def test_the_quickstart_prints_the_sum_on_every_rank_and_explains_once(tmp_path: Path) -> None:
    (code,) = [c for place, c in PYTHON_BLOCKS if place.startswith("README") and "torchrun" in c]
    printed = run_block(code, tmp_path)
    # Without the line ends: ranks that print at once may share a line.
    assert "rank 0: 3.0" in printed
    assert "rank 1: 3.0" in printed
    assert printed.count("all_reduce of 1000 x float32 on 2 ranks (host): ll_one_shot") == 1


def missing_files(words: str) -> list[str]:
    """Return the files and folders that a page names in code, but that the repository lacks."""
    paths = re.findall(r"`([\w.*-]+/[\w./*-]*)`", words)
    made_by_setup = ".venv/"
    written = [path for path in paths if not path.startswith(made_by_setup)]
    return [path for path in written if not (path.endswith("*") or any(ROOT.glob(path)))]


def test_pages_name_files_that_exist() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    assert {
        page.name: missing for page in pages if (missing := missing_files(page.read_text()))
    } == {}
    assert missing_files("`kernels/ring.py`, `kernels/`, `docs/ring*.md`, `1/2`") == [
        "kernels/ring.py",
        "docs/ring*.md",
        "1/2",
    ]


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text()):
            if not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


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
