"""Run ruff and mypy. Where one is not installed, say so; with WORLDLINE_STRICT=1, fail."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHECKS = {
    "ruff": [["-m", "ruff", "check", "."], ["-m", "ruff", "format", "--check", "."]],
    "mypy": [["-m", "tools.typecheck"]],
}


def main() -> int:
    """Run every check, even after one has failed; return 1 if any did."""
    strict = os.environ.get("WORLDLINE_STRICT") == "1"
    failed = False
    for tool, commands in CHECKS.items():
        if importlib.util.find_spec(tool) is None:
            print(f"{tool}: {'FAILED' if strict else 'skipped'}, it is not installed in this .venv")
            failed |= strict
            continue
        for command in commands:
            print("python", *command, flush=True)
            failed |= (
                subprocess.run([sys.executable, *command], cwd=ROOT, check=False).returncode != 0
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
