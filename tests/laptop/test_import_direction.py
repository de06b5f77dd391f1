"""Imports run downwards: worldline, bench, autotune, then kernels or hosttransport, primitives."""

import ast
from pathlib import Path

import pytest

BELOW = {
    "primitives": set(),
    "kernels": {"primitives"},
    "hosttransport": {"primitives"},
    "autotune": {"kernels", "hosttransport", "primitives"},
    "bench": {"autotune", "kernels", "hosttransport", "primitives"},
}
"""The rooms that each room may import. The front door, ``worldline``, may import all."""

NEUTRAL = {"_version"}
"""Front-door modules that import nothing of ours: any room may read them."""


def imported_modules(source: str, package: str) -> set[str]:
    """Return the absolute names that ``source``, a module of ``package``, imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level]
            base = [*above, node.module] if node.level else [node.module]
            stem = ".".join(part for part in base if part)
            names |= {f"{stem}.{alias.name}" for alias in node.names}
    return names


def upward_imports(source: str, package: str) -> list[str]:
    """Return what a module of ``worldline.<room>...`` imports from outside what its room may."""
    room = package.split(".")[1]
    allowed = BELOW[room] | NEUTRAL | {room}
    return sorted(
        name
        for name in imported_modules(source, package)
        if name.split(".")[0] == "worldline" and not set(name.split(".")[1:2]) & allowed
    )


def test_no_room_imports_upwards(repo_root: Path, repo_files: list[Path]) -> None:
    found = {}
    for file in repo_files:
        if file.suffix == ".py" and file.parts[0] in BELOW:
            package = ".".join(("worldline", *file.parent.parts))
            if upward := upward_imports((repo_root / file).read_text(), package):
                found[str(file)] = upward
    assert not found


@pytest.mark.parametrize(
    ("source", "package"),
    [
        ("from worldline.kernels import registry", "worldline.primitives"),
        ("import worldline.hosttransport.window", "worldline.kernels"),
        ("from worldline import kernels", "worldline.hosttransport"),
        ("from ..bench import clock", "worldline.autotune"),
        ("from ... import World", "worldline.bench.peers"),
        ("import worldline", "worldline.bench"),
    ],
)
def test_the_scan_sees_an_upward_import(source: str, package: str) -> None:
    assert upward_imports(source, package)


@pytest.mark.parametrize(
    ("source", "package"),
    [
        ("from worldline.primitives import ll", "worldline.kernels"),
        ("from . import reference", "worldline.kernels"),
        ("from ..kernels.registry import find", "worldline.bench"),
        ("from worldline._version import __version__", "worldline.autotune"),
        ("import torch", "worldline.primitives"),
    ],
)
def test_the_scan_passes_a_downward_import(source: str, package: str) -> None:
    assert not upward_imports(source, package)
