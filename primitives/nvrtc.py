"""CUDA C++ to cubin, without a GPU and once per machine.

The compiler is NVRTC through cuda.core. Results are kept on disk under a key of everything that
they depend on: source, headers, options, compiler and architecture. Ranks may compile the same
thing at once: each writes a file of its own and moves it into place.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from worldline.primitives import cubin_cache, layout, nvrtc_program
from worldline.primitives.cubin_cache import Cubin
from worldline.primitives.errors import ProviderError
from worldline.primitives.fingerprint import package_version

HEADERS = Path(__file__).resolve().parent / "cuda"
REGISTERS = 128
"""Registers of a thread that no kernel may pass: blocks that must be resident together are counted
by it, alike on all ranks."""
_STANDARD = "c++17"
_CONSTANTS = (
    "SPINS",
    "MAX_BLOCKS",
    "MAX_WORLD",
    "SLOT",
    "ITEM",
    "LINE",
    "LINE_DATA",
    "DEAD",
    "RECORD_LOCK",
    "RECORD",
    "RECORD_WORDS",
    "WAIT_PEER",
    "WAIT_BEAT",
    "GAVE_WAY",
    "OVERLAPPED",
    "SEVERAL",
    "EPOCHS",
    "BUSY",
    "STAGES",
    "TURNS",
    "TOKENS",
    "TOKEN_REFRESH",
    "CHANNEL",
    "FEW_RANKS",
    "LL",
)


def layout_header() -> str:
    """Return the arena's map as C++ constants: :mod:`worldline.primitives.layout` is the source."""
    lines = [f"constexpr int {name} = {getattr(layout, name)};" for name in _CONSTANTS]
    return "\n".join(["#pragma once", "namespace worldline {", *lines, "}"])


def compile_cubin(
    source: Path, arch: str, macros: Sequence[str] = (), expressions: Sequence[str] = ()
) -> Cubin:
    """Compile a kernel file, or take it from the cache; see :func:`compile_cubins`."""
    return compile_cubins(source, arch, macros, [expressions])[0]


def compile_cubins(
    source: Path, arch: str, macros: Sequence[str], parts: Sequence[Sequence[str]]
) -> list[Cubin]:
    """Compile a kernel file into several modules in parallel, or take them from the cache.

    Parameters
    ----------
    source : Path
        A ``.cu`` file; it may include its own folder's headers and those of ``HEADERS``.
    arch : str
        Such as ``"sm_90"``.
    macros : sequence of str
        Definitions such as ``"WL_WORLD=2"``.
    parts : sequence of sequence of str
        C++ names that each module is to hold, such as ``"one_shot<0, 0, true>"``.

    Raises
    ------
    ProviderError
        When the compiler is missing or refuses; the message holds its log.
    """
    folders = (source.parent, HEADERS)
    job: dict[str, Any] = {
        "layout": layout_header(),
        "source": source.read_text(),
        "folders": [str(folder) for folder in folders],
        "arch": arch,
        "std": _STANDARD,
        "registers": REGISTERS,
        "macros": list(macros),
    }
    content = hashlib.sha256(json.dumps([job, _compiler()]).encode())
    for path in sorted({header for folder in folders for header in folder.glob("*.cuh")}):
        content.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    jobs, files = [], []
    for part in parts:
        key = content.copy()
        key.update(json.dumps(list(part)).encode())
        jobs.append(job | {"expressions": list(part)})
        name = f"{source.stem}-{arch}-{key.hexdigest()[:32]}"
        files.append(cubin_cache.cache_folder() / name)
    found = [cubin_cache.read(file) for file in files]
    missing = [place for place, cubin in enumerate(found) if cubin is None]
    for place, cubin in zip(missing, _compile([jobs[place] for place in missing]), strict=True):
        cubin_cache.write(files[place], cubin)
        found[place] = cubin
    return [cubin for cubin in found if cubin is not None]


def compiler_version() -> tuple[int, int] | None:
    """Return the version of the NVRTC that would compile, None where there is none."""
    try:
        _, major, minor = nvrtc_program.version()
    except (ImportError, OSError, RuntimeError, ValueError):
        return None
    return major, minor


def _compiler() -> str:
    """Name the compiler, whichever package brought it."""
    return f"{compiler_version()} {package_version('nvidia-cuda-nvrtc')}"


def _compile(jobs: Sequence[dict[str, Any]]) -> list[Cubin]:
    """Compile here if there is one job, else in a process for each, as many as there are cores."""
    if len(jobs) < 2:
        return [_compile_here(job) for job in jobs]
    with ThreadPoolExecutor(min(len(jobs), len(os.sched_getaffinity(0)))) as pool:
        return list(pool.map(_compile_there, jobs))


def _compile_here(job: dict[str, Any]) -> Cubin:
    try:
        return Cubin(*nvrtc_program.compile_program(job))
    except Exception as error:
        raise ProviderError(_why(error, job["arch"])) from error


def _why(error: Exception, arch: str) -> str:
    """Say what keeps a kernel from being compiled."""
    # A library that is not found is no ImportError: it is loaded by the first call.
    if isinstance(error, ImportError) or compiler_version() is None:
        return (
            f"CUDA kernels need cuda-core and NVRTC (`worldline doctor` says what to install): "
            f"{error}"
        )
    if isinstance(error, OSError):
        return (
            f"CUDA kernels are compiled in a temporary folder; set TMPDIR to one that can be "
            f"written: {error}"
        )
    return f"NVRTC refuses kernels for {arch}: {error}"


def _compile_there(job: dict[str, Any]) -> Cubin:
    # -P: the program's own folder must not be searched for modules.
    command = [sys.executable, "-P", nvrtc_program.__file__]
    try:
        done = subprocess.run(
            command, input=json.dumps(job).encode(), capture_output=True, check=False
        )
        cubin = cubin_cache.unpack(done.stdout)
    except OSError:
        cubin = None
    # Where no process can be started, or it fails: here, for the compiler's own words.
    return cubin if cubin is not None else _compile_here(job)
