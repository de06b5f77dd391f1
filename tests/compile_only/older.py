"""Triton 3.6, the oldest that Worldline supports, beside the installed one."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from pathlib import Path

from tools.triton_env import TritonUnavailable, ensure

OLDEST = "3.6.0"
INSTALLED_IS_OLDEST = version("triton") == OLDEST


@cache
def place() -> Path | str:
    """Return the folder that holds it, or why there is none; asked for once a session."""
    try:
        return ensure(OLDEST)
    except TritonUnavailable as error:
        return str(error)
