"""Modes of torch in which a call would not do what it says."""

from __future__ import annotations

import sys

import torch
from torch._C import DispatchKey
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from worldline.primitives.errors import UnsupportedError

_modes = torch._C._len_torch_dispatch_stack
_tracing = torch._C._is_tracing
_included = torch._C._dispatch_tls_is_dispatch_key_included


def plain() -> bool:
    """Say whether no mode and no tracer is active; cheap enough for every call."""
    return not (_modes() or _tracing() or _included(DispatchKey.PreDispatch))


def check_modes(collective: str) -> None:
    """Refuse a call where memory is pretended, or that a tracer would leave out of its record.

    Modes that only look on, such as one that counts operations, do no harm.

    Raises
    ------
    UnsupportedError
        Naming what is active.
    """
    if plain():
        return
    tracer = _tracer()
    if tracer:
        raise UnsupportedError(
            f"{collective}: {tracer} is recording, and would leave the call out of its graph: "
            f"call it outside of what is recorded"
        )
    if any(isinstance(mode, FakeTensorMode) for mode in _get_current_dispatch_mode_stack()):
        raise UnsupportedError(
            f"{collective}: a fake tensor mode is active, in which tensors have no memory: call it "
            f"outside"
        )


def _tracer() -> str:
    """Name the tracer that records this thread's operations, if there is one."""
    if _tracing():
        return "torch.jit.trace"
    # Where nothing has imported it, nothing of it is active; importing it takes long.
    proxies = sys.modules.get("torch.fx.experimental.proxy_tensor")
    if proxies is not None and proxies.get_proxy_mode() is not None:
        return "make_fx"
    return ""
