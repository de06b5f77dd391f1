"""Compiled kernels on disk, one file each; ranks may write the same one at once.

A file is a line with a SHA-256, then what ``nvrtc_program.pack`` makes. The sum covers that and the
file's own name, which stands for the source and the names asked for: what is torn, altered or
another entry's counts as missing.
"""

from __future__ import annotations

import hashlib
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
    """Return where compiled kernels are kept: ``WORLDLINE_CACHE``, or the user's cache folder.

    A user without a home, as in some containers, gets a folder that can never hold anything.
    """
    named = os.environ.get("WORLDLINE_CACHE")
    if named:
        return Path(named)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "worldline"
    except RuntimeError:
        return Path(os.devnull) / "worldline"


def unpack(content: bytes) -> Cubin | None:
    """Return a cubin and its names from packed content, or nothing if it is not whole."""
    try:
        head, _, code = content.partition(b"\n")
        known = json.loads(head)
        return Cubin(code, known["names"]) if known["bytes"] == len(code) else None
    except (ValueError, KeyError, TypeError):
        return None


def read(kept: Path) -> Cubin | None:
    """Read a file of the cache, or nothing if it is not there or not as it was written."""
    try:
        digest, _, packed = kept.read_bytes().partition(b"\n")
    except OSError:
        return None
    return unpack(packed) if digest == _digest(kept, packed) else None


def write(kept: Path, cubin: Cubin) -> None:
    """Keep a cubin; a folder that cannot be written to costs only the next start its time."""
    packed = pack(cubin.code, cubin.names)
    write_whole(kept, _digest(kept, packed) + b"\n" + packed)


def write_whole(kept: Path, content: bytes) -> None:
    """Write a file that others see whole or not at all; none where it cannot be written."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(dir=kept.parent, prefix=kept.name)
        try:
            with os.fdopen(handle, "wb") as file:
                # In a folder that users share, others are to read it too, whatever the umask.
                os.fchmod(handle, 0o644)
                file.write(content)
            os.replace(made, kept)
        except BaseException:
            Path(made).unlink(missing_ok=True)
            raise
    except OSError:
        return


def _digest(kept: Path, packed: bytes) -> bytes:
    return hashlib.sha256(kept.name.encode() + b"\0" + packed).hexdigest().encode()
