"""Rooms are imported only as ``worldline.<room>``.

From the repository's root a bare ``import kernels`` works too, and is a second copy of the room
with a second registry.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOMS = {"primitives", "kernels", "hosttransport", "autotune", "bench"}

# Walks each room by its own path: the editable install's package paths do not nest.
IMPORT_EVERYTHING = """
import importlib, pkgutil, sys
names = ["worldline", *(f"worldline.{room}" for room in sys.argv[1].split(","))]
for name in names:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
bare = {name.partition(".")[0] for name in sys.modules} & set(sys.argv[1].split(","))
sys.exit(f"imported without worldline in front: {sorted(bare)}" if bare else 0)
"""


def bare_imports(source: str) -> list[str]:
    """Return the import statements that name a room without ``worldline`` in front."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        if any(name.partition(".")[0] in ROOMS for name in names):
            found.append(ast.unparse(node))
    return found


def test_importing_everything_from_the_root_imports_no_bare_room(repo_root: Path) -> None:
    present = sorted(room for room in ROOMS if (repo_root / room / "__init__.py").exists())
    command = [sys.executable, "-c", IMPORT_EVERYTHING, ",".join(present)]
    done = subprocess.run(command, cwd=repo_root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_file_imports_a_bare_room(repo_root: Path, repo_files: list[Path]) -> None:
    found = {
        str(file): bare
        for file in repo_files
        if file.suffix == ".py" and (bare := bare_imports((repo_root / file).read_text()))
    }
    assert not found


@pytest.mark.parametrize(
    "source", ["import kernels", "import bench.all_reduce as b", "from primitives.ll import send"]
)
def test_the_scan_sees_a_bare_import(source: str) -> None:
    assert bare_imports(f"def f():\n    {source}\n")


@pytest.mark.parametrize("source", ["from . import kernels", "from worldline.kernels import x"])
def test_the_scan_passes_a_proper_import(source: str) -> None:
    assert not bare_imports(source)
