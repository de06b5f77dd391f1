"""Compiled kernels on disk, one file each; ranks may write the same one at once."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from worldline.primitives.nvrtc_program import pack


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


def cache_folder() -> Path:
    """Return where compiled kernels are kept: ``WORLDLINE_CACHE``, or the user's cache folder."""
    named = os.environ.get("WORLDLINE_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "worldline"


def unpack(content: bytes) -> Cubin | None:
    """Return a cubin and its names from one file's content, or nothing if it is not whole."""
    try:
        head, _, code = content.partition(b"\n")
        known = json.loads(head)
        return Cubin(code, known["names"]) if known["bytes"] == len(code) else None
    except (ValueError, KeyError, TypeError):
        return None


def read(kept: Path) -> Cubin | None:
    """Read a file of the cache, or nothing if it is not there or not whole."""
    try:
        return unpack(kept.read_bytes())
    except OSError:
        return None


def write(kept: Path, cubin: Cubin) -> None:
    """Keep a cubin; a folder that cannot be written to costs only the next start its time."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(dir=kept.parent, prefix=kept.name)
        with os.fdopen(handle, "wb") as file:
            file.write(pack(cubin.code, cubin.names))
        os.replace(made, kept)
    except OSError:
        return
