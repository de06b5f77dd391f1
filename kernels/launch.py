"""Plans: a registry row, a request and a launch shape made ready to run on a lane.

What a call needs is worked out once, in its plan: chunks, widths, constants, argument blocks. The
plan is then run with two addresses.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Protocol

from worldline.kernels.chunks import chunks
from worldline.kernels.numerics import DTYPES, OP_CODES, SCALED_SUM
from worldline.kernels.parts import RULES
from worldline.kernels.protocols import COPIES
from worldline.kernels.registry import Algorithm, Launch, Request
from worldline.primitives.lane import Lane
from worldline.primitives.layout import BEGINS, ENDS, ITEM, OPERATIONS, THREADS
from worldline.primitives.memory import Provider

if TYPE_CHECKING:
    from worldline.kernels.cuda_launch import CudaKernels

REGISTERS = 168
COMPILE = {"num_warps": THREADS // 32, "maxnreg": REGISTERS}
"""Triton's options for every kernel: left to itself ptxas keeps to 32 registers and may spill."""


def compile_options(request: Request) -> dict[str, int | bool]:
    """Return Triton's options for a request's kernel."""
    if request.operation != SCALED_SUM:
        return dict(COMPILE)
    # A product that is added would be rounded once with the sum in place of twice.
    return {**COMPILE, "enable_fp_fusion": False}


def scale_bits(scale: float | None) -> int:
    """Return the 64 bits of a float, as a signed integer; 0 without one."""
    (bits,) = struct.unpack("<q", struct.pack("<d", 0.0 if scale is None else scale))
    return int(bits)


class Plan(Protocol):
    """A collective made ready."""

    def load(self) -> None:
        """Compile and load every kernel that it may launch."""
        ...

    def run(self, source: int, target: int) -> None:
        """Launch, reading at address ``source`` and writing at ``target``; both contiguous."""
        ...


class TritonPlan:
    """A plan whose kernel is Triton's, compiled or interpreted."""

    def __init__(self, algorithm: Algorithm, request: Request, lane: Lane, shape: Launch) -> None:
        self._kernel = algorithm.load()
        self._lane = lane
        self._per_item = ITEM // request.dtype.itemsize
        most = largest_grid(algorithm, shape, lane.provider)
        self._chunks = chunks(algorithm, request, lane.arena.layout, shape, most)
        self._constants = {
            "RANK": lane.rank,
            "WORLD": lane.size,
            "DTYPE": DTYPES[request.dtype],
            "OP": OP_CODES[request.operation],
            "BLOCK": shape.block,
            **compile_options(request),
            **algorithm.protocol.constants(lane.arena.layout),
        }
        self._scale = scale_bits(request.scale)

    def load(self) -> None:
        """Compile and load both widths: a rank's own alignment chooses between them."""
        lane = self._lane
        args = (0, 0, lane.arena.table, 1, lane.limit_ns, self._scale)
        for wide in (0, 1):
            lane.provider.load(self._kernel, args, WIDE=wide, **self._constants)

    def run(self, source: int, target: int) -> None:
        """Launch once for each chunk."""
        lane = self._lane
        for offset, count, grid in self._chunks:
            read, write = source + offset, target + offset
            wide = (read | write) % ITEM == 0 and count % self._per_item == 0
            args = (read, write, lane.arena.table, count, lane.limit_ns, self._scale)
            lane.provider.launch(self._kernel, grid, args, WIDE=int(wide), **self._constants)


class BarrierPlan:
    """The device-side barrier, alone or a part of another operation.

    Parameters
    ----------
    lane : Lane
        Where.
    operation : str
        Whose it is, for errors.
    spoilt : int
        The byte that fills the operation's output where it fails.
    """

    def __init__(self, lane: Lane, operation: str = "barrier", spoilt: int = 0) -> None:
        from worldline.kernels.barrier import barrier_signals

        self._kernel, self._lane = barrier_signals, lane
        self._operation = OPERATIONS.index(operation)
        self._spoilt = int.from_bytes(bytes([spoilt] * 8), "little", signed=True)
        self._constants = {"RANK": lane.rank, "WORLD": lane.size, **COMPILE}

    def _args(self, mark: int, target: int, nbytes: int) -> tuple[int, ...]:
        lane = self._lane
        output = (target, nbytes, self._spoilt)
        return (lane.arena.table, *output, self._operation, mark, lane.limit_ns)

    def load(self) -> None:
        """Compile and load."""
        self._lane.provider.load(self._kernel, self._args(0, 0, 0), **self._constants)

    def run(self, source: int = 0, target: int = 0) -> None:
        """Launch; a barrier moves nothing."""
        self.meet(BEGINS | ENDS)

    def meet(self, mark: int, target: int = 0, nbytes: int = 0) -> None:
        """Launch at the beginning, between or at the end of an operation.

        Parameters
        ----------
        mark : int
            Of ``layout.BEGINS`` and ``layout.ENDS``.
        target, nbytes : int
            The output to spoil where the operation has failed, and its bytes.
        """
        args = self._args(mark, target, nbytes)
        self._lane.provider.launch(self._kernel, 1, args, **self._constants)


def largest_grid(algorithm: Algorithm, shape: Launch, provider: Provider) -> int | None:
    """Blocks of one launch that can be on a world's device with all that may wait for them.

    None for any number. For providers that have allocated: they count what shares the device.
    """
    if algorithm.backend == "triton":
        return provider.largest_grid(THREADS, REGISTERS)
    from worldline.primitives.nvrtc import REGISTERS as OF_CUDA

    return provider.largest_grid(algorithm.threads(shape), OF_CUDA)


def plan(
    algorithm: Algorithm,
    request: Request,
    lane: Lane,
    shape: Launch,
    cuda: CudaKernels | None = None,
) -> Plan:
    """Make a row ready for a request on a lane.

    Parameters
    ----------
    algorithm, request, lane, shape
        What to run, for what, where and how; equal on all ranks.
    cuda : CudaKernels, optional
        This rank's CUDA kernels, for rows that need them.
    """
    if algorithm.protocol is COPIES:
        from worldline.kernels.copy_engine import CopyPlan

        return CopyPlan(algorithm, request, lane, shape)
    if algorithm.collective in RULES:
        if algorithm.backend == "triton":
            from worldline.kernels.triton_parts import TritonPartsPlan

            return TritonPartsPlan(algorithm, request, lane, shape)
        from worldline.kernels.cuda_parts import PartsPlan

        assert cuda is not None
        return PartsPlan(algorithm, request, lane, shape, cuda)
    if algorithm.backend == "triton":
        return TritonPlan(algorithm, request, lane, shape)
    from worldline.kernels.cuda_launch import AllReducePlan

    assert cuda is not None
    return AllReducePlan(algorithm, request, lane, shape, cuda)
