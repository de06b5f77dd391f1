"""Whether Triton interprets or compiles in this process.

Triton reads ``TRITON_INTERPRET`` when a function is decorated, and its own library is decorated
when it is imported: the choice is one per process and must be made before the first import.
"""

from __future__ import annotations

import os
import sys

from worldline.primitives.errors import ProviderError

_TRUE = ("1", "true", "on", "yes", "y")


def interpreting() -> bool:
    """Say whether device functions imported in this process run in Triton's interpreter."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in _TRUE


def require_interpreter() -> None:
    """Choose the interpreter for this process.

    Raises
    ------
    ProviderError
        When Triton was already imported for compiling.
    """
    if interpreting():
        return
    if "triton.language" in sys.modules:
        raise ProviderError(
            "the host provider runs kernels in Triton's interpreter, but this process imported "
            "Triton for compiling; set TRITON_INTERPRET=1 in the environment, or call "
            "worldline.init() before anything imports triton"
        )
    os.environ["TRITON_INTERPRET"] = "1"
