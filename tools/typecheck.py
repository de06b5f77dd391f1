"""Run mypy on the package as it is imported, which the folders alone do not show.

The rooms lie at the top level and import as ``worldline.<room>``. mypy cannot follow that map, so
it gets a tree of links laid out as the import names are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / ".venv" / "typecheck"


def rooms() -> dict[str, Path]:
    """Return the folder of each room, by the name it has inside ``worldline``."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        folders: dict[str, str] = tomllib.load(file)["tool"]["setuptools"]["package-dir"]
    return {
        name.removeprefix("worldline."): ROOT / folder
        for name, folder in folders.items()
        if name != "worldline"
    }


def link_tree(tree: Path = TREE) -> None:
    """Lay the links under ``tree``, in place of what was there."""
    shutil.rmtree(tree, ignore_errors=True)
    package = tree / "worldline"
    package.mkdir(parents=True)
    for entry in (ROOT / "worldline").iterdir():
        if entry.name != "__pycache__":
            (package / entry.name).symlink_to(entry)
    for name, folder in rooms().items():
        (package / name).symlink_to(folder)
    (tree / "tools").symlink_to(ROOT / "tools")


def with_real_paths(report: str) -> str:
    """Return mypy's report with each path as it is in the repository."""
    for name, folder in rooms().items():
        report = report.replace(f"worldline/{name}/", f"{folder.relative_to(ROOT)}/")
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Type-check ``worldline`` and ``tools``; pass ``arguments`` on to mypy."""
    link_tree()
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    command += ["--cache-dir", str(ROOT / ".mypy_cache"), "-p", "worldline", "-p", "tools"]
    command += sys.argv[1:] if arguments is None else arguments
    environment = {**os.environ, "MYPYPATH": str(TREE)}
    done = subprocess.run(
        command, cwd=TREE, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    print(with_real_paths(done.stdout), end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
