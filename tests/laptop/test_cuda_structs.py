"""The arguments of CUDA kernels: ctypes' structures lie as the C++ ones do."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from worldline.bench import limits
from worldline.kernels import cuda_launch, cuda_parts, litmus
from worldline.primitives import nvrtc

PAIRS = {
    "Lane": cuda_launch.LaneArguments,
    "AllReduce": cuda_launch.AllReduce,
    "Litmus": litmus.Arguments,
    "Limits": limits.Arguments,
    "Parts": cuda_parts.Arguments,
}


def fields(structure: type[ctypes.Structure]) -> list[str]:
    return [field[0] for field in structure._fields_]


def program() -> str:
    """Return C++ that prints each structure's size and its fields' offsets and sizes."""
    lines = []
    for name, structure in PAIRS.items():
        lines.append(f'std::printf("{name} %zu\\n", sizeof({name}));')
        for field in fields(structure):
            place = f"offsetof({name}, {field}), sizeof({name}::{field})"
            lines.append(f'std::printf("{name}.{field} %zu %zu\\n", {place});')
    body = "\n  ".join(lines)
    headers = (
        "<cstddef>",
        "<cstdio>",
        '"arguments.cuh"',
        '"parts_arguments.cuh"',
        '"litmus.cuh"',
        '"limits.cuh"',
    )
    included = "".join(f"#include {header}\n" for header in headers)
    return f"{included}using namespace worldline;\nint main() {{\n  {body}\n}}\n"


def as_ctypes() -> list[str]:
    """Return what the program should print."""
    lines = []
    for name, structure in PAIRS.items():
        lines.append(f"{name} {ctypes.sizeof(structure)}")
        for field in fields(structure):
            place = getattr(structure, field)
            lines.append(f"{name}.{field} {place.offset} {place.size}")
    return lines


@pytest.fixture
def printed(repo_root: Path, tmp_path: Path, require_tool: Callable[[str], str]) -> list[str]:
    """Compile the headers for the host and run the program."""
    (tmp_path / "layout.cuh").write_text(nvrtc.layout_header())
    (tmp_path / "structs.cpp").write_text(program())
    folders = [tmp_path, repo_root / "kernels/cuda", repo_root / "bench/cuda", nvrtc.HEADERS]
    includes = [f"-I{folder}" for folder in folders]
    command = [require_tool("g++"), "-std=c++20", *includes, "structs.cpp", "-o", "structs"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([str(tmp_path / "structs")], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_fields_lie_alike(printed: list[str]) -> None:
    assert printed == as_ctypes()


def test_no_field_is_missing(printed: list[str]) -> None:
    # What follows a structure's last field is less than its alignment.
    for name, structure in PAIRS.items():
        last = getattr(structure, fields(structure)[-1])
        rest = ctypes.sizeof(structure) - last.offset - last.size
        assert 0 <= rest < ctypes.alignment(structure), name
