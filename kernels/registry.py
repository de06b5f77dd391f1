"""The one list of what exists: every algorithm of every collective.

The dispatcher, the chooser, the bench, the documentation and the tests all read it. A kernel's
module is named, not imported: Triton's mode must be settled first.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import torch

from worldline.kernels import parts, shapes
from worldline.kernels.numerics import COMMON, DTYPES, OPS, SCALED_SUM
from worldline.kernels.protocols import (
    BARRIER,
    COPIES,
    LL,
    LL128,
    LL128_ATOMIC,
    SENTINEL,
    WARP,
    Protocol,
)
from worldline.primitives.arguments import text, whole_number
from worldline.primitives.errors import InvalidArgument
from worldline.primitives.layout import (
    MAX_BLOCKS,
    SENTINEL_STAGES,
    SLOT,
    THREADS,
    ArenaLayout,
    channel_slots,
)

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
        Elements of each rank's input; of a scatter, of the root's.
    world_size : int
        Ranks.
    device_type : str
        ``"cpu"`` where kernels are interpreted.
    torn : str
        Why a line of 128 bytes may arrive in pieces; empty where it is known to arrive whole.
    torn_adds : str
        The same of what is added to a line.
    root : int
        The rank from which, or to which, everything goes.
    scale : float, optional
        What each rank's input is multiplied by before it is summed.
    """

    collective: str
    dtype: torch.dtype
    op: str
    count: int
    world_size: int
    device_type: str
    torn: str = "nothing is known of lines of 128 bytes here"
    torn_adds: str = torn
    root: int = 0
    scale: float | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of each rank's input."""
        return self.count * self.dtype.itemsize

    @property
    def part(self) -> int:
        """Elements that one rank sends another, of a collective of parts; else of the input."""
        rule = parts.RULES.get(self.collective)
        return self.count // self.world_size if rule and rule.spread else self.count

    @property
    def operation(self) -> str:
        """What a kernel is to do: of :data:`worldline.kernels.numerics.OP_CODES`."""
        return self.op if self.scale is None else SCALED_SUM


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
        for name, low, high in (
            ("block", 1, MAX_BLOCK),
            ("grid", 1, MAX_BLOCKS),
            ("launch_point", 0, 1),
        ):
            # NumPy's numbers are none that JSON and C know.
            plain = whole_number(f"launch.{name}", getattr(self, name), low, high)
            object.__setattr__(self, name, plain)
        if self.block & (self.block - 1):
            raise InvalidArgument("launch.block", self.block, "must be a power of two")


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
        ``"bitwise"``: same bits on every rank, run and launch shape. ``"arrival order"``: same
        bits on every rank alone.
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
        if self.collective in parts.MOVES:
            return self._refuses_move(request)
        if request.dtype not in DTYPES:
            known = ", ".join(dtype_name(dtype) for dtype in DTYPES)
            return f"dtype {request.dtype} is not one of {known}"
        # By equality: what is no text may have no hash.
        if request.op not in tuple(OPS):
            return f"op {request.op!r} is not one of {', '.join(OPS)}"
        reason = self.refuses_numbers(request.dtype, request.operation)
        if reason:
            return reason
        if not self.runs_on(request.device_type):
            return "it runs on NVIDIA GPUs"
        if self.protocol.lanes > 1 and request.torn:
            return request.torn
        if self.protocol.adds and request.torn_adds:
            return request.torn_adds
        if request.device_type == "cuda" and self.widest(request.world_size) < self.narrowest:
            return f"of {request.world_size} ranks a channel is too narrow for its blocks"
        return None

    def _refuses_move(self, request: Request) -> str | None:
        why = parts.refusal(request)
        if why is None and not self.runs_on(request.device_type):
            why = "it runs on NVIDIA GPUs"
        return why or (request.torn if self.protocol.lanes > 1 else "") or None

    def refuses_numbers(self, dtype: torch.dtype, operation: str) -> str | None:
        """Return None if its kernels can have a dtype and an operation, else why not."""
        if self.protocol is SENTINEL and not dtype.is_floating_point:
            return "an integer can be any pattern, so none is left to mark what is empty"
        if self.protocol.adds and (dtype not in COMMON or operation != "sum"):
            names = ", ".join(dtype_name(dtype) for dtype in COMMON)
            return f"peers add floats to a line: plain sums of {names} alone"
        return None

    @property
    def bitwise(self) -> bool:
        """Whether its bits are the reference's, so that it may be chosen unasked."""
        return self.determinism == "bitwise"

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
        if self.protocol.channel or self.ring:
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
        items = -(-count * request.dtype.itemsize // self.protocol.item)
        return (items if self.shots == 1 else -(-items // request.world_size)) * self.protocol.lanes

    def stride(self, layout: ArenaLayout) -> int:
        """Slots of one source in a buffer, or in a block's channel; of 16 bytes, in whole slots."""
        if self.protocol.channel:
            return channel_slots(layout.world_size, self.shots)
        room, slot = self.protocol.room(layout), self.protocol.slot
        return room // slot // self.shots // layout.world_size * (slot // SLOT)

    @property
    def ring(self) -> bool:
        """Whether a launch goes through its slots again and again, in turn."""
        return self.collective in parts.RULES and self.protocol is LL128

    def batches(self, world_size: int) -> tuple[int, ...]:
        """List how many items a CUDA kernel's thread may take at a time, of several; most last."""
        # More than four items or peers at a time would not stay in the registers.
        several = self.protocol.channel or self.ring
        most = 4 // self.shots // max(1, world_size - 1) if several else 1
        batches = tuple(batch for batch in (2, 4) if batch <= most)
        return (1, *batches) if self.ring or not batches else batches

    def widest(self, world_size: int) -> int:
        """Return the largest block, a power of two, that a launch on so many ranks can have."""
        most = MAX_THREADS - self.protocol.helpers if self.backend == "cuda" else MAX_BLOCK
        if self.protocol.channel:
            slots = channel_slots(world_size, self.shots)
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
        items = max(1, self.items(request, request.part))
        # A sentinel's threads send much, and then the next kernel's would start late: between two
        # H200s 4.93 us in place of 4.78 at 1 MB.
        point = 0 if self.protocol.channel else 1
        found = (
            Launch(block, shapes.grid(self, request, items, block), point)
            for block in shapes.blocks(self, request, items)
        )
        return tuple(shape for shape in found if self.refuses(request, shape) is None)

    def variant(self, request: Request, launch: Launch) -> tuple[Any, ...]:
        """Name what a call needs to have loaded."""
        if self.protocol is COPIES:
            return ("barrier",)
        if self.collective in parts.RULES:
            rule = parts.RULES[self.collective]
            reduced = (request.dtype, request.operation) if rule.reduces else ()
            # Triton's kernel is one for all; a CUDA kernel knows whether all peers get the same.
            form = launch.block if self.backend == "triton" else rule.spread
            return (self.name, *reduced, form)
        if self.backend == "cuda":
            return (self.backend, request.dtype, request.operation)
        return (self.name, request.dtype, request.operation, launch.block)

    def load(self) -> Any:
        """Import a Triton kernel."""
        module, _, function = self.kernel.partition(":")
        return getattr(importlib.import_module(module), function)


def _all_reduce(protocol: Protocol, shots: int, backend: str, summary: str) -> Algorithm:
    """Make a row whose name is that of its protocol, shots and backend, and so is its kernel's."""
    form = "" if protocol.adds else f"_{('one', 'two')[shots - 1]}_shot"
    kernel = name = f"{protocol.name}{form}"
    if backend == "triton":
        kernel = f"worldline.kernels.all_reduce_{protocol.name}:all_reduce_{name}"
    return Algorithm(
        name=f"{name}{'_cuda' * (backend == 'cuda')}",
        collective="all_reduce",
        protocol=protocol,
        shots=shots,
        determinism="arrival order" if protocol.adds else "bitwise",
        backend=backend,
        kernel=kernel,
        summary=summary,
    )


def _parts(collective: str) -> tuple[Algorithm, ...]:
    """Make a collective of parts' rows, the same for each."""
    kind = "reduce" if parts.RULES[collective].reduces else "move"
    rows = (
        (LL, "cuda", "every rank sends each peer its part as LL slots, in one kernel"),
        (LL128, "cuda", "as ll_cuda, in lines of 120 bytes and a flag; where lines arrive whole"),
        (LL, "triton", "as ll_cuda, in Triton"),
    )
    return tuple(
        Algorithm(
            name=f"{protocol.name}{'_cuda' * (backend == 'cuda')}",
            collective=collective,
            protocol=protocol,
            shots=1,
            determinism="bitwise",
            backend=backend,
            kernel=(
                f"{protocol.name}_{kind}"
                if backend == "cuda"
                else "worldline.kernels.parts_ll:parts_ll"
            ),
            summary=summary,
        )
        for protocol, backend, summary in rows
    )


ALGORITHMS: tuple[Algorithm, ...] = (
    _all_reduce(
        LL, 1, "cuda", "one-shot LL as a CUDA kernel: a thread to an item, dependent launch"
    ),
    _all_reduce(
        LL, 2, "cuda", "two-shot LL as a CUDA kernel: a thread to an item, dependent launch"
    ),
    _all_reduce(
        LL128,
        1,
        "cuda",
        "one-shot as a CUDA kernel, lines of 120 bytes and a flag; where lines arrive whole",
    ),
    _all_reduce(
        LL128,
        2,
        "cuda",
        "two-shot as a CUDA kernel, lines of 120 bytes and a flag; where lines arrive whole",
    ),
    _all_reduce(
        LL128_ATOMIC,
        2,
        "cuda",
        "two-shot whose sums peers add to as they come: bits differ from run to run; by name only",
    ),
    _all_reduce(
        SENTINEL, 1, "cuda", "one-shot as a CUDA kernel, at the link's full width; floats only"
    ),
    _all_reduce(
        SENTINEL, 2, "cuda", "two-shot as a CUDA kernel, at the link's full width; floats only"
    ),
    _all_reduce(
        LL, 1, "triton", "every rank sends its input to all and reduces everything; no barrier"
    ),
    _all_reduce(
        LL, 2, "triton", "every rank reduces one share and sends the result to all; no barrier"
    ),
    _all_reduce(SENTINEL, 1, "triton", "as ll_one_shot, at the link's full width; floats only"),
    _all_reduce(SENTINEL, 2, "triton", "as ll_two_shot, at the link's full width; floats only"),
    _all_reduce(
        BARRIER, 1, "triton", "every rank reads all inputs between two barriers; the slow reference"
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
    *(row for collective in parts.RULES for row in _parts(collective)),
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
