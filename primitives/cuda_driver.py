"""The CUDA driver as far as Worldline calls it: errors by name, contexts, copies, modules.

Calls go through cuda.bindings, whose functions give the interpreter lock back while they wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from worldline.primitives.errors import ProviderError

try:
    from cuda.bindings import driver

    MISSING: str | None = None
except ImportError as error:
    MISSING = str(error)


class DriverError(ProviderError):
    """A call of the CUDA driver that failed.

    Parameters
    ----------
    call : str
        The function.
    name : str
        The driver's name of the error, such as ``"CUDA_ERROR_OUT_OF_MEMORY"``.
    """

    def __init__(self, call: str, name: str) -> None:
        super().__init__(f"{call}: {name}")
        self.call, self.name = call, name

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.call, self.name)


def call(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the driver and return its result, if it has one.

    Raises
    ------
    DriverError
        When it fails.
    """
    status, *results = function(*args)
    if status:
        raise DriverError(function.__name__, status.name)
    return results[0] if results else None


def served_version() -> tuple[int, int]:
    """Return the newest CUDA version that the driver serves."""
    number = call(driver.cuDriverGetVersion)
    return number // 1000, number % 1000 // 10


@contextmanager
def current(context: Any) -> Iterator[None]:
    """Make a context current on this thread for the body."""
    call(driver.cuCtxPushCurrent, context)
    try:
        yield
    finally:
        call(driver.cuCtxPopCurrent)


class Context:
    """A device's primary context, kept for threads that have not used CUDA yet.

    Made on a thread that has it current, such as one that has used torch there.
    """

    def __init__(self) -> None:
        self._handle = call(driver.cuCtxGetCurrent)
        flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        self._stream = call(driver.cuStreamCreate, flags)

    def read(self, address: int, words: int) -> list[int]:
        """Read int64 words of a device's memory, beside whatever is running there."""
        with current(self._handle):
            out = np.empty(words, dtype=np.int64)
            call(driver.cuMemcpyDtoHAsync, out.ctypes.data, address, out.nbytes, self._stream)
            call(driver.cuStreamSynchronize, self._stream)
        return [int(word) for word in out]

    def write(self, address: int, words: list[int]) -> None:
        """Write int64 words of a device's memory."""
        with current(self._handle):
            data = np.array(words, dtype=np.int64)
            call(driver.cuMemcpyHtoDAsync, address, data.ctypes.data, data.nbytes, self._stream)
            call(driver.cuStreamSynchronize, self._stream)

    def fill(self, address: int, value: int, words: int) -> None:
        """Set int32 words of a device's memory."""
        with current(self._handle):
            call(driver.cuMemsetD32Async, address, value & 0xFFFFFFFF, words, self._stream)
            call(driver.cuStreamSynchronize, self._stream)

    def close(self) -> None:
        """Give back what was made."""
        with current(self._handle):
            call(driver.cuStreamDestroy, self._stream)
