"""The one list of what exists: every algorithm of every collective.

The dispatcher, the chooser, the bench, the documentation and the tests all read it. A kernel's
module is named, not imported: Triton's mode must be settled first.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import torch

from worldline.kernels import moves
from worldline.kernels.protocols import BARRIER, COPIES, LL, LL128, SENTINEL, WARP, Protocol
from worldline.primitives.arguments import text, whole_number
from worldline.primitives.errors import InvalidArgument
from worldline.primitives.layout import (
    MAX_BLOCKS,
    SENTINEL_STAGES,
    SLOT,
    THREADS,
    ArenaLayout,
)

DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
"""Supported dtypes and their codes in :mod:`worldline.primitives.numerics`."""
_INTEGERS = {torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64}
MAX_BLOCK = 1 << 16
MAX_THREADS = 512
ANY_SIZE = 1 << 62
"""Bytes that no call has."""


def dtype_name(dtype: torch.dtype) -> str:
    """Name a dtype as people do: ``"bfloat16"``."""
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True)
class Request:
    """What is asked for: only what is equal on all ranks.

    Parameters
    ----------
    collective : str
        Such as ``"all_reduce"``.
    dtype : torch.dtype
        Of input and output.
    op : str
        The reduction.
    count : int
        Elements of each rank's input.
    world_size : int
        Ranks.
    device_type : str
        ``"cpu"`` where kernels are interpreted.
    torn : str
        Why a line of 128 bytes may arrive in pieces; empty where it is known to arrive whole.
    """

    collective: str
    dtype: torch.dtype
    op: str
    count: int
    world_size: int
    device_type: str
    torn: str = "nothing is known of lines of 128 bytes here"

    @property
    def nbytes(self) -> int:
        """Bytes of each rank's input."""
        return self.count * self.dtype.itemsize


@dataclass(frozen=True)
class Launch:
    """Shape of a launch, equal on all ranks.

    Parameters
    ----------
    block : int
        Items (what a slot holds) to a program and pass; a power of two, at most 65536. Threads of a
        CUDA kernel, which may take several items each.
    grid : int
        Programs at most; fewer are started where there is less work.
    launch_point : int
        Where a CUDA kernel lets its successor start: 0 once its own predecessor has ended, 1 once
        it has sent.
    """

    block: int
    grid: int
    launch_point: int = 1

    def __post_init__(self) -> None:
        whole_number("launch.block", self.block, 1, MAX_BLOCK)
        if self.block & (self.block - 1):
            raise InvalidArgument("launch.block", self.block, "must be a power of two")
        whole_number("launch.grid", self.grid, 1, MAX_BLOCKS)
        whole_number("launch.launch_point", self.launch_point, 0, 1)


@dataclass(frozen=True)
class Algorithm:
    """One row: what an algorithm is, what it supports and how it is started.

    Parameters
    ----------
    name, collective : str
        Its name and its collective.
    protocol : Protocol
        How its data travels.
    shots : int
        Times that data crosses the link one after another.
    determinism : str
        ``"bitwise"``: same bits on every rank, run and launch shape.
    backend : str
        ``"triton"``, which the CPU can interpret, or ``"cuda"``.
    kernel : str
        ``module:function`` of a Triton kernel, or the entry point of a CUDA one.
    summary : str
        One line for people.
    """

    name: str
    collective: str
    protocol: Protocol
    shots: int
    determinism: str
    backend: str
    kernel: str
    summary: str

    def supports(self, request: Request) -> str | None:
        """Return None if it can serve a request, else the reason why not."""
        if request.collective != self.collective:
            return f"it is a {self.collective}"
        if self.protocol is COPIES:
            return moves.refusal(request)
        if self.protocol is SENTINEL and request.dtype in _INTEGERS:
            return "an integer can be any pattern, so none is left to mark what is empty"
        if request.dtype not in DTYPES:
            known = ", ".join(dtype_name(dtype) for dtype in DTYPES)
            return f"dtype {request.dtype} is not one of {known}"
        if request.op != "sum":
            return f"op {request.op!r} is not 'sum'"
        if not self.runs_on(request.device_type):
            return "it runs on NVIDIA GPUs"
        if self.protocol is LL128 and request.torn:
            return request.torn
        if request.device_type == "cuda" and self.widest(request.world_size) < self.narrowest:
            return f"of {request.world_size} ranks a channel is too narrow for its blocks"
        return None

    def runs_on(self, device_type: str) -> bool:
        """Say whether it runs on a kind of device: Triton's kernels run on every kind."""
        return self.backend == "triton" or device_type == "cuda"

    def refuses(self, request: Request, launch: Launch) -> str | None:
        """Return None if a launch shape can serve a request, else the rule that it breaks."""
        most = self.widest(request.world_size)
        if self.backend == "cuda":
            if not self.narrowest <= launch.block <= most:
                ranks = f" on {request.world_size} ranks" if self.protocol.channel else ""
                return f"must be {WARP} to {most} for {self.name}{ranks}, whose items are threads"
        elif launch.block > most:
            return f"must be at most {most} for {self.name} on {request.world_size} ranks"
        elif request.device_type != "cpu" and launch.block < self.narrowest:
            # Narrower than its threads, a block's warps would each reduce a copy and could differ.
            return f"must be at least {THREADS} for {self.name} on a GPU"
        return None

    @property
    def narrowest(self) -> int:
        """The smallest block that a launch on a GPU can have."""
        return WARP if self.backend == "cuda" else THREADS

    def capacity(self, layout: ArenaLayout) -> int:
        """Bytes of input that one launch takes; more is done in chunks."""
        room, world = self.protocol.room(layout), layout.world_size
        if self.protocol.channel:
            return ANY_SIZE
        if self.protocol in (BARRIER, COPIES):
            return room
        share = room // self.protocol.slot // self.shots // world
        return share * (1 if self.shots == 1 else world) * self.protocol.item

    def per_item(self, request: Request) -> int:
        """Elements in the data bytes of a slot."""
        return self.protocol.item // request.dtype.itemsize

    def items(self, request: Request, count: int) -> int:
        """Items that a launch on ``count`` elements shares among its programs, one to a thread."""
        items = -(-count // self.per_item(request))
        return (items if self.shots == 1 else -(-items // request.world_size)) * self.protocol.lanes

    def stride(self, layout: ArenaLayout) -> int:
        """Slots of one source in a buffer, or in a block's channel; of 16 bytes, in whole slots."""
        room, slot = self.protocol.channel or self.protocol.room(layout), self.protocol.slot
        return room // slot // self.shots // layout.world_size * (slot // SLOT)

    def batches(self, world_size: int) -> tuple[int, ...]:
        """List how many items a CUDA kernel's thread may take at a time, of several; most last."""
        # More than four items or peers at a time would not stay in the registers.
        most = 4 // self.shots // max(1, world_size - 1) if self.protocol.channel else 1
        return tuple(batch for batch in (2, 4) if batch <= most) or (1,)

    def widest(self, world_size: int) -> int:
        """Return the largest block, a power of two, that a launch on so many ranks can have."""
        most = MAX_THREADS - self.protocol.helpers if self.backend == "cuda" else MAX_BLOCK
        if self.protocol.channel:
            slots = self.protocol.channel // SLOT // self.shots // world_size
            most = min(
                most, slots // self.batches(world_size)[-1] if self.backend == "cuda" else slots
            )
        return 1 << (most.bit_length() - 1)

    def threads(self, launch: Launch) -> int:
        """Threads of a CUDA kernel's block: one to an item of a pass, and those that help."""
        return launch.block + self.protocol.helpers

    def scratch_bytes(self, request: Request, layout: ArenaLayout) -> int:
        """Bytes of the arena that a call touches on each rank."""
        if self.protocol in (BARRIER, COPIES):
            return min(request.nbytes, self.protocol.buffer(layout))
        data = min(request.nbytes, self.capacity(layout))
        sources = request.world_size if self.shots == 1 else 2
        touched = data * sources * self.protocol.slot // self.protocol.item
        if not self.protocol.channel:
            return touched
        return min(touched, SENTINEL_STAGES * self.protocol.buffer(layout))

    def launches(self, request: Request) -> tuple[Launch, ...]:
        """List launch shapes worth trying, the default first."""
        if self.protocol is COPIES:
            return (Launch(THREADS, 1),)
        items = max(1, self.items(request, request.count))
        if request.device_type == "cpu":
            # The interpreter's cost is one of operations, not of elements: one program if it fits.
            block = min(
                8192, max(16, 1 << (items - 1).bit_length()), self.widest(request.world_size)
            )
            return (Launch(block, min(MAX_BLOCKS, -(-items // block))),)
        # From 1 to 64 KB on two H200s, 128 threads are the best of a CUDA kernel's, by up to 3 %.
        blocks: tuple[int, ...] = (128, 256, 64, 512)
        if self.protocol is LL128 and items > 256 * 128:
            blocks = (256, 512, 128, 64)
        if self.protocol.channel:
            # Of many items wide blocks first: there are not channels for many, and of many ranks a
            # channel may hold narrow ones only.
            blocks = (256, 128, 64, 32) if items > 128 * 128 else (128, 256, 64, 32)
        if self.backend == "triton":
            # More would not stay in the registers of its 128 threads, and half as much of many
            # ranks' data where a pass keeps what it has worked out for every peer.
            most = 2048 if self.protocol.channel and request.world_size > 4 else 4096
            blocks = tuple(block for block in (128, 256, 512) if block * self.protocol.item <= most)
        shapes = (Launch(block, min(MAX_BLOCKS, -(-items // block))) for block in blocks)
        return tuple(shape for shape in shapes if self.refuses(request, shape) is None)

    def variant(self, request: Request, launch: Launch) -> tuple[Any, ...]:
        """Name what a call needs to have loaded."""
        if self.protocol is COPIES:
            return ("barrier",)
        if self.backend == "cuda":
            return (self.backend, request.dtype)
        return (self.name, request.dtype, launch.block)

    def load(self) -> Any:
        """Import a Triton kernel."""
        module, _, function = self.kernel.partition(":")
        return getattr(importlib.import_module(module), function)


def _row(protocol: Protocol, shots: int, backend: str, kernel: str, summary: str) -> Algorithm:
    """Make an all-reduce whose name is that of its protocol, shots and backend."""
    return Algorithm(
        name=f"{protocol.name}_{('one', 'two')[shots - 1]}_shot{'_cuda' * (backend == 'cuda')}",
        collective="all_reduce",
        protocol=protocol,
        shots=shots,
        determinism="bitwise",
        backend=backend,
        kernel=kernel,
        summary=summary,
    )


ALGORITHMS: tuple[Algorithm, ...] = (
    _row(
        LL,
        1,
        "cuda",
        "ll_one_shot",
        "one-shot LL as a CUDA kernel: a thread to an item, dependent launch",
    ),
    _row(
        LL,
        2,
        "cuda",
        "ll_two_shot",
        "two-shot LL as a CUDA kernel: a thread to an item, dependent launch",
    ),
    _row(
        LL128,
        1,
        "cuda",
        "ll128_one_shot",
        "one-shot as a CUDA kernel, lines of 120 bytes and a flag; where lines arrive whole",
    ),
    _row(
        LL128,
        2,
        "cuda",
        "ll128_two_shot",
        "two-shot as a CUDA kernel, lines of 120 bytes and a flag; where lines arrive whole",
    ),
    _row(
        SENTINEL,
        1,
        "cuda",
        "sentinel_one_shot",
        "one-shot as a CUDA kernel, at the link's full width; floats only",
    ),
    _row(
        SENTINEL,
        2,
        "cuda",
        "sentinel_two_shot",
        "two-shot as a CUDA kernel, at the link's full width; floats only",
    ),
    _row(
        LL,
        1,
        "triton",
        "worldline.kernels.all_reduce_ll:all_reduce_ll_one_shot",
        "every rank sends its input to all and reduces everything; no barrier",
    ),
    _row(
        LL,
        2,
        "triton",
        "worldline.kernels.all_reduce_ll:all_reduce_ll_two_shot",
        "every rank reduces one share and sends the result to all; no barrier",
    ),
    _row(
        SENTINEL,
        1,
        "triton",
        "worldline.kernels.all_reduce_sentinel:all_reduce_sentinel_one_shot",
        "as ll_one_shot, at the link's full width; floats only",
    ),
    _row(
        SENTINEL,
        2,
        "triton",
        "worldline.kernels.all_reduce_sentinel:all_reduce_sentinel_two_shot",
        "as ll_two_shot, at the link's full width; floats only",
    ),
    _row(
        BARRIER,
        1,
        "triton",
        "worldline.kernels.all_reduce_barrier:all_reduce_barrier_one_shot",
        "every rank reads all inputs between two barriers; the slow reference",
    ),
    Algorithm(
        name="copy_engine",
        collective="all_gather",
        protocol=COPIES,
        shots=1,
        determinism="bitwise",
        backend="triton",
        kernel="worldline.kernels.barrier:barrier_signals",
        summary="every rank's copy engines pull from all peers, between barriers; for large inputs",
    ),
)


def algorithms(collective: str, device_type: str | None = None) -> tuple[Algorithm, ...]:
    """List a collective's algorithms in the registry's order, or those for a kind of device."""
    return tuple(
        row
        for row in ALGORITHMS
        if row.collective == collective and row.runs_on(device_type or "cuda")
    )


def algorithm(collective: str, name: str) -> Algorithm:
    """Look an algorithm up.

    Raises
    ------
    InvalidArgument
        Listing the names that exist.
    """
    rows = {row.name: row for row in algorithms(collective)}
    return rows[text("algorithm", name, tuple(rows))]
