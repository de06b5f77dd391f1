"""The arena's map: which bytes of symmetric memory belong to what.

Every rank's arena has the same map, so an offset plus a peer's base is an address. No two protocols
share a byte: a word that is a flag is never a payload.

::

    0       control   dead word, record of the first timeout, wait heartbeat, notice
    2048    turns     one int32 per possible block, LL128-atomic's count and stage
    4096    epochs    one int32 per possible block, LL's epoch
    6144    rounds    one int32 per possible block, the barrier's own counter
    8192    busy      one int32 per possible block, 1 while an operation runs there
    10240   stages    one int32 per possible block, the sentinel protocol's count and stage
    12288   flags     int32 [block][source rank], the barrier's flags
    45056   tokens    int32 [block][source rank], the sentinel protocol's tokens
    77824   ll        two halves, in each LL's slots of 16 bytes, then LL128's lines of 128
    ...     sentinel  three stages of a channel for each block, 16-byte slots, all ones while empty
    ...     sums      three stages of LL128-atomic's lines of 128 bytes, zero while empty
    ...     staged    bulk data that is published by signals: each rank writes its own alone
"""

from __future__ import annotations

from dataclasses import dataclass

from worldline.primitives.arguments import whole_number

MAX_BLOCKS = 512
MAX_WORLD = 16
THREADS = 128
SPINS = 1024
PAGE = 4096
SLOT = 16
ITEM = SLOT // 2
LINE = 128
LINE_DATA = LINE - ITEM

DEAD = 0
RECORD_LOCK = 8
RECORD = 64
RECORD_WORDS = 7
WAIT_PEER = 128
WAIT_BEAT = 136
GAVE_WAY = 144
ABORTED = 152
OVERLAPPED = 160
SEVERAL = 168
NOTICE = 192
TURNS = PAGE // 2
EPOCHS = PAGE
ROUNDS = EPOCHS + 4 * MAX_BLOCKS
BUSY = ROUNDS + 4 * MAX_BLOCKS
STAGES = BUSY + 4 * MAX_BLOCKS
FLAGS = STAGES + 4 * MAX_BLOCKS
TOKENS = FLAGS + 4 * MAX_BLOCKS * MAX_WORLD
LL = TOKENS + 4 * MAX_BLOCKS * MAX_WORLD
BUFFERS = 2
"""Halves of the LL region."""
SENTINEL_STAGES = 3
SUM_STAGES = 3
CHANNEL = 4 * PAGE
"""Bytes of a block's channel in one stage of the sentinel region, of a few ranks."""
FEW_RANKS = 3
TOKEN_REFRESH = 1 << 18
"""Passes after which a block tells its token even where no peer waits for it."""
OPERATIONS = (
    *("barrier", "all_reduce", "all_gather", "broadcast", "gather", "scatter", "all_to_all"),
    *("reduce_scatter", "reduce"),
)
"""Names of the operations that a timeout record can hold, by index."""
BEGINS, ENDS = 1, 2
"""Marks of a barrier: whether its operation begins there, and whether it ends there."""

MINIMUM = LL + 8 * 2 * CHANNEL
"""Smallest arena, in bytes."""
MAXIMUM = 1 << 50


def channel(world_size: int) -> int:
    """Bytes of a block's channel: twice as many of many ranks, so that wide blocks' items fit."""
    return CHANNEL if world_size <= FEW_RANKS else 2 * CHANNEL


def channel_slots(world_size: int, shots: int) -> int:
    """Slots of a channel for what one peer sends in one shot; a rank has none for its own."""
    return channel(world_size) // SLOT // shots // max(1, world_size - 1)


@dataclass(frozen=True)
class Region:
    """A named range of the arena.

    Parameters
    ----------
    name : str
        What it holds.
    offset, size : int
        Where it starts and how long it is, in bytes.
    """

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class ArenaLayout:
    """The map of one arena.

    Parameters
    ----------
    world_size : int
        Ranks that share it, 1 to 16.
    size : int
        Bytes of each rank's arena, at least ``MINIMUM``.

    Raises
    ------
    InvalidArgument
        For a world or a size out of range.
    """

    world_size: int
    size: int

    def __post_init__(self) -> None:
        size = whole_number("world_size", self.world_size, 1, MAX_WORLD)
        object.__setattr__(self, "world_size", size)
        object.__setattr__(self, "size", whole_number("arena_bytes", self.size, MINIMUM, MAXIMUM))

    @property
    def half(self) -> int:
        """Bytes of one half of the LL region: three eighths of what is free, in two."""
        return (self.size - LL) * 3 // 16 // PAGE * PAGE

    @property
    def slots(self) -> int:
        """Bytes of LL's slots in one half, as many as lines have behind them."""
        return self.half // 2 // PAGE * PAGE

    @property
    def sentinel(self) -> int:
        """Offset of the sentinel region, in bytes."""
        return LL + BUFFERS * self.half

    @property
    def stage(self) -> int:
        """Bytes of one stage of the sentinel region."""
        return self.channels * channel(self.world_size)

    @property
    def channels(self) -> int:
        """Blocks that have a channel: as many as three stages hold in three eighths of the arena.

        Of the whole arena, so that a power of two has a power of two: in 64 MiB 512 of a few ranks,
        256 of more.
        """
        return min(MAX_BLOCKS, self.size // 8 // channel(self.world_size))

    @property
    def sums(self) -> int:
        """Offset of the sums, in bytes."""
        return self.sentinel + SENTINEL_STAGES * self.stage

    @property
    def sum_stage(self) -> int:
        """Bytes of one stage of the sums: twice a rank's share of what LL128's lines hold.

        Lines have room for two shots of all ranks' data. A share's sums take as many bytes, or
        twice as many where two bytes become a float.
        """
        return -(-(self.half - self.slots) // max(2, self.world_size) // PAGE) * PAGE

    @property
    def staged(self) -> int:
        """Offset of the staged region, in bytes."""
        return self.sums + SUM_STAGES * self.sum_stage

    @property
    def staged_size(self) -> int:
        """Bytes of the staged region."""
        return (self.size - self.staged) // PAGE * PAGE

    def regions(self) -> tuple[Region, ...]:
        """List every region in order of offset."""
        return (
            Region("control", 0, TURNS),
            Region("turns", TURNS, EPOCHS - TURNS),
            Region("epochs", EPOCHS, ROUNDS - EPOCHS),
            Region("rounds", ROUNDS, BUSY - ROUNDS),
            Region("busy", BUSY, STAGES - BUSY),
            Region("stages", STAGES, FLAGS - STAGES),
            Region("flags", FLAGS, TOKENS - FLAGS),
            Region("tokens", TOKENS, LL - TOKENS),
            Region("ll", LL, BUFFERS * self.half),
            Region("sentinel", self.sentinel, SENTINEL_STAGES * self.stage),
            Region("sums", self.sums, SUM_STAGES * self.sum_stage),
            Region("staged", self.staged, self.staged_size),
        )
