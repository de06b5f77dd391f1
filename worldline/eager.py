"""Calls that torch.compile leaves alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., Any])


def eager(fn: F) -> F:
    """Keep torch.compile out of a call: it would trace into the launch.

    Dynamo is asked only where something has imported it; importing it takes seconds.
    """
    if "torch._dynamo" in sys.modules:
        return torch._dynamo.disable(fn)
    return fn
