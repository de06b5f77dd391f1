"""The set-up's decisions, on made-up facts: which path, how old is too old, when to run again."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import setup_env


@pytest.mark.parametrize(
    ("importable", "index", "path"),
    [(True, True, "install"), (False, True, "install"), (True, False, "reuse")],
)
def test_the_path_follows_what_is_there(importable: bool, index: bool, path: str) -> None:
    assert setup_env.choose_path(importable, index) == path


def test_with_nothing_to_take_the_error_says_what_to_do() -> None:
    with pytest.raises(setup_env.SetupError, match=r"INDEX=[\s\S]*PYTHON=\S+ REUSE=1"):
        setup_env.choose_path(importable=False, index=False)


def test_a_torch_below_the_range_is_refused_by_name() -> None:
    assert setup_env.too_old({"torch": "2.10.1+cu130", "triton": "3.6.0"}) == [
        "torch 2.10.1+cu130 is older than 2.11"
    ]


def test_versions_compare_as_numbers() -> None:
    assert setup_env.too_old({"torch": "2.13.0+cpu", "triton": "3.10.0"}) == []


def test_a_python_without_torch_is_not_reused(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho 'ModuleNotFoundError: no torch' >&2\nexit 1\n")
    fake.chmod(0o755)
    folders, reason = setup_env.reusable_site(str(fake))
    assert folders == []
    assert reason == "ModuleNotFoundError: no torch"


def test_a_command_that_works_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    setup_env.run("Doing it", [sys.executable, "-c", "print('noise\\n' * 99)"])
    printed = capsys.readouterr()
    assert re.fullmatch(r"Doing it \.\.\. \d+ s\n", printed.out)
    assert printed.err == ""


def test_a_command_that_fails_shows_what_it_said(capsys: pytest.CaptureFixture[str]) -> None:
    program = "import sys; print('out'); sys.exit('err')"
    with pytest.raises(setup_env.SetupError, match=r"failed \(exit 1\): \S+ -c import sys"):
        setup_env.run("Doing it", [sys.executable, "-c", program])
    assert sorted(capsys.readouterr().err.split()) == ["err", "out"]


def test_a_terminal_is_shown_that_time_passes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    setup_env.run("Doing it", [sys.executable, "-c", "import time; time.sleep(1.2)"])
    shown = r"Doing it \.\.\. (\rDoing it \.\.\. \d+ s){2,}\n"
    assert re.fullmatch(shown, capsys.readouterr().out)


@pytest.fixture
def makes(repo_copy: Path, require_tool: Callable[[str], str]) -> Callable[..., str]:
    """Give a function that returns what ``make -n`` would run in a copy that is set up."""
    stamp = repo_copy / ".venv/worldline-setup"
    stamp.parent.mkdir()
    stamp.write_text("install\n")

    def dry_run(*arguments: str) -> str:
        command = [require_tool("make"), "--dry-run", *arguments]
        return subprocess.run(
            command, cwd=repo_copy, capture_output=True, text=True, check=True
        ).stdout

    return dry_run


@pytest.mark.parametrize("goal", ["demo", "test", "bench"])
def test_set_up_is_not_run_twice(makes: Callable[..., str], goal: str) -> None:
    commands = makes(goal)
    assert "setup_env" not in commands
    assert [line for line in commands.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize("file", ["pyproject.toml", "constraints.txt", "tools/setup_env.py"])
def test_set_up_runs_again_when_what_it_reads_changes(makes: Callable[..., str], file: str) -> None:
    assert "-m tools.setup_env" in makes("demo", f"--what-if={file}")


def test_variables_reach_the_set_up_and_the_demo(makes: Callable[..., str]) -> None:
    words = makes("setup", "demo", "INDEX=file:///wheels", "REUSE=1", "MODEL=here", "PYTHON=py")
    assert "py -m tools.setup_env --path reuse --index 'file:///wheels'" in words
    assert "-m worldline demo --model 'here'" in words
