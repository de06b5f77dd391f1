"""Inline assembly lives in ``primitives`` alone (tests may plant or compare some)."""

import re
from pathlib import Path

import pytest

ASSEMBLY = re.compile(r"inline_asm_elementwise|\b__?asm__\b|\basm\s+volatile\b|\basm\s*\(")
SOURCES = {".py", ".cu", ".cuh", ".c", ".h", ".cc", ".cpp", ".hpp"}
HOMES = {"primitives", "tests"}


def test_assembly_is_in_primitives_alone(repo_root: Path, repo_files: list[Path]) -> None:
    strays = [
        str(file)
        for file in repo_files
        if file.suffix in SOURCES and file.parts[0] not in HOMES
        if ASSEMBLY.search((repo_root / file).read_text())
    ]
    assert not strays


@pytest.mark.parametrize(
    "line",
    [
        'tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], tl.int32, True, 1)',
        'asm volatile("membar.sys;");',
        'asm("mov.u32 %0, %%smid;" : "=r"(x));',
        '__asm__ volatile("");',
    ],
)
def test_the_scan_sees_assembly(line: str) -> None:
    assert ASSEMBLY.search(line)
