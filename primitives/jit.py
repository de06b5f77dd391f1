"""Decorators for kernels and device functions, and the twins' way out of the interpreter.

A device function has one source and two bodies: ``if INTERPRETED:`` selects plain Triton that the
interpreter can run, ``else:`` the GPU's assembly; the branch not taken is pruned at compile time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import triton
import triton.language as tl

from worldline.primitives.interpreter import interpreting

INTERPRETED = tl.constexpr(interpreting())

if interpreting():
    from triton.runtime import interpreter as _interpreter

    # The overflow check triples the cost of an integer addition, and epochs wrap on purpose.
    _interpreter.interpreter_builder.options = _interpreter.InterpreterOptions(
        sanitize_overflow=False
    )

    _patch_tensor = _interpreter._patch_lang_tensor

    def _patch_tensor_and_index(tensor: Any, scope: Any) -> None:
        """Patch as Triton does, and let version 3.6's range() take scalars with numpy 2.4."""
        _patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.squeeze()))

    _interpreter._patch_lang_tensor = _patch_tensor_and_index

    class _DeviceFunction(_interpreter.InterpretedFunction):
        """A device function that relies on its kernel's patching of ``triton.language``.

        Triton patches the language again at each nested call, some 0.4 ms every time; the
        kernel's launch has done so already for the one module that all of ours share.
        """

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return self.rewrite()(*args, **kwargs)

    def device_function(fn: Callable[..., Any]) -> Any:
        """Mark a function that kernels call."""
        return _DeviceFunction(fn)

else:
    device_function = triton.jit

kernel = triton.jit

ARGUMENTS = ["source", "target", "table", "count", "limit_ns", "scale"]
"""Arguments of a collective's kernel. No value of theirs may choose a variant: a variant that one
rank has to compile first, while its peers' kernels already wait for it, can stop them all."""


def host_twin(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a plain Python function that interpreter bodies may call.

    Triton refuses references to Python functions even in a branch that it prunes, unless they
    carry its mark of a builtin.
    """
    fn.__triton_builtin__ = True  # type: ignore[attr-defined]
    return fn


@host_twin
def host_clock_ns() -> int:
    """Nanoseconds of a clock that all processes of this machine share."""
    return time.monotonic_ns()


@host_twin
def host_yield() -> None:
    """Let another rank's process run: ranks outnumber cores on a laptop."""
    os.sched_yield()


@host_twin
def host_any(condition: Any) -> int:
    """Return 1 if any element of a block of booleans is true, else 0."""
    return int(np.any(condition.handle.data))
