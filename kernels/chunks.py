"""How a request is cut into launches, from what is equal on all ranks."""

from __future__ import annotations

from dataclasses import replace

from worldline.kernels.registry import Algorithm, Launch, Request
from worldline.primitives.layout import ArenaLayout


def chunk_elements(algorithm: Algorithm, request: Request, layout: ArenaLayout) -> int:
    """Elements that one launch takes; depends only on what is equal on all ranks."""
    return algorithm.capacity(layout) // request.dtype.itemsize


def chunk_blocks(
    algorithm: Algorithm,
    request: Request,
    layout: ArenaLayout,
    shape: Launch,
    most: int | None,
    count: int,
) -> int:
    """Blocks of a launch on ``count`` elements of a request.

    Never more than there are items for, which is a condition of safety: each block must exchange a
    slot, or a token, with every peer, and one without items would not. ``most`` are the blocks that
    there may be, None for any number.
    """
    items = algorithm.items(request, count)
    blocks = min(shape.grid if most is None else min(shape.grid, most), -(-items // shape.block))
    if algorithm.ring:
        blocks = min(blocks, algorithm.stride(layout) // shape.block)
        if items > blocks * shape.block:
            blocks = min(blocks, algorithm.stride(layout) // (2 * shape.block))
    if algorithm.backend == "cuda":
        width = shape.block * max(1, batch(algorithm, request, layout, shape, blocks, count))
        blocks = min(blocks, -(-items // width))
    return blocks


def batch(
    algorithm: Algorithm,
    request: Request,
    layout: ArenaLayout,
    shape: Launch,
    blocks: int,
    count: int,
) -> int:
    """Items that a CUDA kernel's thread takes at a time; zero where there is a thread for each.

    As few as make one pass, for a thread waits for all of them before it uses any; and of a ring no
    more than have two slots each.
    """
    threads = max(1, blocks * shape.block)
    each = -(-algorithm.items(request, count) // threads)
    if each <= 1:
        return 0
    batches = algorithm.batches(request.world_size)
    if algorithm.ring:
        room = algorithm.stride(layout) // (2 * threads)
        batches = tuple(batch for batch in batches if batch <= room) or batches[:1]
    return next((batch for batch in batches if batch >= each), batches[-1])


def fitted(algorithm: Algorithm, layout: ArenaLayout, shape: Launch) -> Launch:
    """Return a launch shape of which one block at least has its slots, twice for a ring."""
    if not algorithm.ring:
        return shape
    most = algorithm.stride(layout) // 2
    return replace(shape, block=min(shape.block, 1 << (most.bit_length() - 1)))


def most_blocks(algorithm: Algorithm, layout: ArenaLayout, resident: int | None) -> int | None:
    """Blocks that a launch may have, None for any number.

    Parameters
    ----------
    algorithm : Algorithm
        What runs.
    layout : ArenaLayout
        The arena's map: a protocol may have channels for some blocks only.
    resident : int or None
        Blocks that may wait on others.
    """
    if not algorithm.protocol.channel:
        return resident
    return layout.channels if resident is None else min(resident, layout.channels)


def chunks(
    algorithm: Algorithm,
    request: Request,
    layout: ArenaLayout,
    shape: Launch,
    most: int | None,
) -> list[tuple[int, int, int]]:
    """Cut a request into launches: (offset in bytes, elements, blocks) of each."""
    step = chunk_elements(algorithm, request, layout)
    shape = fitted(algorithm, layout, shape)
    most = most_blocks(algorithm, layout, most)
    cut = []
    for start in range(0, request.part, step):
        count = min(step, request.part - start)
        blocks = chunk_blocks(algorithm, request, layout, shape, most, count)
        cut.append((start * request.dtype.itemsize, count, blocks))
    return cut
