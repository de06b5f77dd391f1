"""CUDA C++ to cubin, without a GPU and once per machine.

The compiler is NVRTC through cuda.core. Results are kept on disk under a key of everything that
they depend on: source, headers, options, compiler and architecture. Ranks may compile the same
thing at once: each writes a file of its own and moves it into place.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from worldline.primitives import layout
from worldline.primitives.errors import ProviderError
from worldline.primitives.fingerprint import package_version

HEADERS = Path(__file__).resolve().parent / "cuda"
_STANDARD = "c++17"
_importing = threading.Lock()
"""Ranks that are threads compile at once, and cuda.core imports itself in a circle: the second of
two threads that import it would find it half made."""
_CONSTANTS = (
    "SPINS",
    "MAX_BLOCKS",
    "MAX_WORLD",
    "SLOT",
    "DEAD",
    "RECORD_LOCK",
    "RECORD",
    "RECORD_WORDS",
    "WAIT_PEER",
    "WAIT_BEAT",
    "GAVE_WAY",
    "OVERLAPPED",
    "EPOCHS",
    "BUSY",
    "LL",
)


@dataclass(frozen=True)
class Cubin:
    """A compiled module.

    Parameters
    ----------
    code : bytes
        The cubin.
    names : dict
        The symbol of each name expression that was asked for.
    """

    code: bytes
    names: dict[str, str]


def layout_header() -> str:
    """Return the arena's map as C++ constants: :mod:`worldline.primitives.layout` is the source."""
    lines = [f"constexpr int {name} = {getattr(layout, name)};" for name in _CONSTANTS]
    return "\n".join(["#pragma once", "namespace worldline {", *lines, "}"])


def compile_cubin(
    source: Path, arch: str, macros: Sequence[str] = (), expressions: Sequence[str] = ()
) -> Cubin:
    """Compile a kernel file, or take it from the cache.

    Parameters
    ----------
    source : Path
        A ``.cu`` file; it may include its own folder's headers and those of ``HEADERS``.
    arch : str
        Such as ``"sm_90"``.
    macros : sequence of str
        Definitions such as ``"WL_WORLD=2"``.
    expressions : sequence of str
        C++ names to compile, such as ``"one_shot<0, true>"``.

    Raises
    ------
    ProviderError
        When the compiler is missing or refuses; the message holds its log.
    """
    folders = (source.parent, HEADERS)
    key = hashlib.sha256()
    for path in sorted({source, *(h for folder in folders for h in folder.glob("*.cuh"))}):
        key.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    options = [layout_header(), _compiler(), _STANDARD, arch, list(macros), list(expressions)]
    key.update(json.dumps(options).encode())
    kept = cache_folder() / f"{source.stem}-{arch}-{key.hexdigest()[:32]}"
    cubin = _read(kept)
    if cubin is None:
        cubin = _compile(source, folders, arch, macros, expressions)
        _write(kept, cubin)
    return cubin


def cache_folder() -> Path:
    """Return where compiled kernels are kept: ``WORLDLINE_CACHE``, or the user's cache folder."""
    named = os.environ.get("WORLDLINE_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "worldline"


def _compiler() -> str:
    """Return the version of the NVRTC that would compile, whichever package brought it."""
    try:
        with _importing:
            from cuda.bindings import nvrtc
        _, major, minor = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError, ValueError):
        return "none"
    return f"{major}.{minor} {package_version('nvidia-cuda-nvrtc')}"


def _compile(
    source: Path,
    folders: Sequence[Path],
    arch: str,
    macros: Sequence[str],
    expressions: Sequence[str],
) -> Cubin:
    try:
        with _importing:
            from cuda.core import Program, ProgramOptions
    except ImportError as error:
        raise ProviderError(f"CUDA kernels need cuda-core and NVRTC: {error}") from error
    with tempfile.TemporaryDirectory(prefix="worldline-") as generated:
        (Path(generated) / "layout.cuh").write_text(layout_header())
        options = ProgramOptions(
            arch=arch,
            std=_STANDARD,
            include_path=[generated, *map(str, folders)],
            define_macro=list(macros) or None,
        )
        try:
            program = Program(source.read_text(), "c++", options)
            code = program.compile("cubin", name_expressions=tuple(expressions))
        except Exception as error:
            raise ProviderError(f"NVRTC refuses {source.name} for {arch}: {error}") from error
    names = {name: _text(code.symbol_mapping[name]) for name in expressions}
    return Cubin(bytes(code.code), names)


def _text(symbol: str | bytes) -> str:
    return symbol.decode() if isinstance(symbol, bytes) else symbol


def _read(kept: Path) -> Cubin | None:
    """Read a cubin and its names from one file, or nothing if it is not there or not whole."""
    try:
        head, _, code = kept.read_bytes().partition(b"\n")
        known = json.loads(head)
        if known["bytes"] != len(code):
            return None
        return Cubin(code, known["names"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(kept: Path, cubin: Cubin) -> None:
    """Keep a cubin; a folder that cannot be written to costs only the next start its time."""
    head = json.dumps({"bytes": len(cubin.code), "names": cubin.names}).encode()
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(dir=kept.parent, prefix=kept.name)
        with os.fdopen(handle, "wb") as file:
            file.write(head + b"\n" + cubin.code)
        os.replace(made, kept)
    except OSError:
        return
