"""Copies between addresses in stream order, which occupy no multiprocessor where engines make them.

What lies in a peer's memory the GPU's copy engines fetch. A copy inside one GPU the driver makes as
it sees fit, often by a kernel of its own.
"""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

import torch

from worldline.primitives import cuda_driver


class Copies(Protocol):
    """What moves bytes for one rank of a lane.

    Addresses are such as this rank's kernels see; source and target do not overlap.
    """

    def copy(self, target: int, source: int, nbytes: int, beside: bool = False) -> None:
        """Copy on the current stream, or on the one ``beside`` it, between fork and join."""
        ...

    def fork(self) -> None:
        """Let the stream beside begin once all that is on the current one has ended."""
        ...

    def join(self) -> None:
        """Let the current stream wait for the one beside it."""
        ...

    def close(self) -> None:
        """Give back what was made."""
        ...


class HostCopies:
    """Copies by the calling thread; they have ended when the call returns."""

    def copy(self, target: int, source: int, nbytes: int, beside: bool = False) -> None:
        """Copy now."""
        ctypes.memmove(target, source, nbytes)

    def fork(self) -> None:
        """Do nothing."""

    def join(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class EngineCopies:
    """Copies by the driver, on the current stream and on one of this object's own.

    Made on a thread that has the device's context current. Captured in a CUDA graph they become
    its nodes.
    """

    def __init__(self) -> None:
        driver = cuda_driver.driver
        self._beside = cuda_driver.call(
            driver.cuStreamCreate, driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        )
        untimed = driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
        self._forked, self._joined = (
            cuda_driver.call(driver.cuEventCreate, untimed) for _ in range(2)
        )

    def copy(self, target: int, source: int, nbytes: int, beside: bool = False) -> None:
        """Put a copy on a stream."""
        stream = self._beside if beside else _current()
        cuda_driver.call(cuda_driver.driver.cuMemcpyDtoDAsync, target, source, nbytes, stream)

    def fork(self) -> None:
        """Record an event on the current stream that the other waits for."""
        _follow(self._beside, _current(), self._forked)

    def join(self) -> None:
        """Record an event on the other stream that the current one waits for."""
        _follow(_current(), self._beside, self._joined)

    def close(self) -> None:
        """Destroy the stream and the events."""
        driver = cuda_driver.driver
        for event in (self._forked, self._joined):
            cuda_driver.call(driver.cuEventDestroy, event)
        cuda_driver.call(driver.cuStreamDestroy, self._beside)


def _current() -> Any:
    return cuda_driver.driver.CUstream(torch.cuda.current_stream().cuda_stream)


def _follow(later: Any, earlier: Any, event: Any) -> None:
    cuda_driver.call(cuda_driver.driver.cuEventRecord, event, earlier)
    cuda_driver.call(cuda_driver.driver.cuStreamWaitEvent, later, event, 0)


class KernelCopies:
    """Copies by kernels, on the current stream alone: for ranks that share one GPU.

    All ranks' copies would wait in one engine's queue, where one that waits for its rank's barrier
    holds up the copy that the peer has to make before it comes to that barrier.
    """

    def copy(self, target: int, source: int, nbytes: int, beside: bool = False) -> None:
        """Launch a kernel that copies."""
        # copy_() might take the engine; an operation on elements is a kernel.
        torch.bitwise_or(_bytes(source, nbytes), 0, out=_bytes(target, nbytes))

    def fork(self) -> None:
        """Do nothing: there is one stream."""

    def join(self) -> None:
        """Do nothing: there is one stream."""

    def close(self) -> None:
        """Do nothing."""


class _Span:
    """Bytes of device memory, as torch takes memory of other libraries."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def _bytes(address: int, nbytes: int) -> torch.Tensor:
    return torch.as_tensor(_Span(address, nbytes), device="cuda")
