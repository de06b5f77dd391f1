"""Protocols: how the data of an algorithm travels, as far as launches need to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from worldline.primitives import layout
from worldline.primitives.layout import ArenaLayout

WARP = 32


@dataclass(frozen=True)
class Protocol:
    """One protocol.

    Parameters
    ----------
    name : str
        What its modules are called.
    item : int
        Bytes of data in a slot.
    unit : int
        Bytes of a caller's tensor that one access of a CUDA kernel takes, where they are aligned.
    helpers : int
        Threads of a CUDA kernel's block that take no items.
    region : callable
        Offset of its slots in an arena, from the layout.
    buffer : callable
        Bytes from one of its halves or stages to the next, from the layout.
    room : callable
        Bytes of slots in one of them, from the layout.
    constants : callable
        A Triton kernel's constants, from the layout.
    channel : callable or None
        Bytes that a block has to itself in a buffer, over and over in a launch, from the world's
        size; None where all blocks share the buffer, which a launch goes through once.
    slot : int
        Bytes of a slot.
    lanes : int
        Threads of a CUDA kernel that share a slot.
    adds : bool
        Whether peers add to a slot that they share, in the order of their arrival.
    capability : tuple of int
        The oldest compute capability that has its instructions.
    """

    name: str
    item: int
    unit: int
    helpers: int
    region: Callable[[ArenaLayout], int]
    buffer: Callable[[ArenaLayout], int]
    room: Callable[[ArenaLayout], int]
    constants: Callable[[ArenaLayout], dict[str, int]]
    channel: Callable[[int], int] | None = None
    slot: int = layout.SLOT
    lanes: int = 1
    adds: bool = False
    capability: tuple[int, int] = (0, 0)


LL = Protocol(
    name="ll",
    item=layout.ITEM,
    unit=layout.ITEM,
    helpers=0,
    region=lambda arena: layout.LL,
    buffer=lambda arena: arena.half,
    room=lambda arena: arena.slots,
    constants=lambda arena: {"HALF": arena.half, "SLOTS": arena.slots},
)
LL128 = Protocol(
    name="ll128",
    item=layout.LINE_DATA,
    unit=layout.ITEM,
    helpers=0,
    region=lambda arena: layout.LL + arena.slots,
    buffer=lambda arena: arena.half,
    room=lambda arena: arena.half - arena.slots,
    constants=lambda arena: {},
    slot=layout.LINE,
    lanes=layout.LINE // layout.SLOT,
)
LL128_ATOMIC = replace(LL128, name="ll128_atomic", adds=True, capability=(9, 0))
SENTINEL = Protocol(
    name="sentinel",
    item=layout.SLOT,
    unit=layout.SLOT,
    helpers=WARP,
    region=lambda arena: arena.sentinel,
    buffer=lambda arena: arena.stage,
    room=lambda arena: arena.stage,
    constants=lambda arena: {
        "REGION": arena.sentinel,
        "STAGE": arena.stage,
        "CHANNEL": layout.channel(arena.world_size),
    },
    channel=layout.channel,
)
BARRIER = Protocol(
    name="barrier",
    item=layout.ITEM,
    unit=layout.ITEM,
    helpers=0,
    region=lambda arena: arena.staged,
    buffer=lambda arena: arena.staged_size,
    room=lambda arena: arena.staged_size,
    constants=lambda arena: {"STAGED": arena.staged},
)
COPIES = Protocol(
    name="copies",
    item=layout.SLOT,
    unit=1,
    helpers=0,
    region=lambda arena: arena.staged,
    buffer=lambda arena: arena.staged_size,
    room=lambda arena: arena.staged_size // 2 // layout.PAGE * layout.PAGE,
    constants=lambda arena: {},
)
"""Chunks in the two halves of the region that the barrier's kernels stage in."""
