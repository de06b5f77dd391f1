"""One compilation by NVRTC: a function, and a program of its own.

NVRTC compiles one thing at a time in a process. What should take no longer than its slowest part is
compiled by as many processes; this file is what they run, and imports nothing of Worldline's.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_importing = threading.Lock()
"""Ranks that are threads compile at once, and cuda.core imports itself in a circle: the second of
two threads that import it would find it half made."""


def compile_program(job: Mapping[str, Any]) -> tuple[bytes, dict[str, str]]:
    """Compile a program to a cubin.

    Parameters
    ----------
    job : mapping
        ``source`` and ``layout`` (text), ``folders``, ``macros`` and ``expressions`` (lists of
        text), ``arch``, ``std`` and ``registers`` (of a thread, at most).

    Returns
    -------
    bytes
        The cubin.
    dict
        The symbol of each expression.
    """
    with _importing:
        from cuda.core import Program, ProgramOptions
    with tempfile.TemporaryDirectory(prefix="worldline-") as generated:
        (Path(generated) / "layout.cuh").write_text(job["layout"])
        options = ProgramOptions(
            arch=job["arch"],
            std=job["std"],
            include_path=[generated, *job["folders"]],
            define_macro=list(job["macros"]) or None,
            max_register_count=job["registers"],
        )
        program = Program(job["source"], "c++", options)
        code = program.compile("cubin", name_expressions=tuple(job["expressions"]))
    return bytes(code.code), {name: _text(code.symbol_mapping[name]) for name in job["expressions"]}


def version() -> Any:
    """Ask NVRTC for its version: status, major, minor."""
    with _importing:
        from cuda.bindings import nvrtc
    return nvrtc.nvrtcVersion()


def _text(symbol: str | bytes) -> str:
    return symbol.decode() if isinstance(symbol, bytes) else symbol


def pack(code: bytes, names: Mapping[str, str]) -> bytes:
    """Return a cubin and its names as one file's content."""
    return json.dumps({"bytes": len(code), "names": dict(names)}).encode() + b"\n" + code


def main() -> int:
    """Compile the job on standard input; the result goes to standard output."""
    try:
        packed = pack(*compile_program(json.load(sys.stdin)))
    except Exception as error:
        print(error, file=sys.stderr)
        return 1
    sys.stdout.buffer.write(packed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
