"""Of a launch of one pass block 0 alone tells its token; the others refresh theirs now and then."""

import torch

import worldline
from worldline import Launch
from worldline.primitives.layout import MAX_WORLD, TOKEN_REFRESH, TOKENS

BEFORE = 3
"""Passes from where the count starts to the refresh."""


def _counts(world: worldline.World) -> list[list[int]]:
    """Return the peer's counts in the tokens of blocks 0 and 1, after each of some calls."""
    world.lane.set_epoch(TOKEN_REFRESH - BEFORE)
    world.barrier()
    found = []
    for _ in range(BEFORE + 1):
        world.all_reduce(
            torch.ones(128, device=world.device),
            algorithm="sentinel_one_shot",
            launch=Launch(16, 2),
        )
        world.synchronize()
        world.barrier()
        tokens = [
            world.lane.arena.read(world.rank, TOKENS + 4 * MAX_WORLD * block, 1)[0]
            for block in range(2)
        ]
        world.barrier()  # Nobody goes on before all have looked.
        found.append([(token >> 32 * (1 - world.rank) & 0xFFFFFFFF) >> 2 for token in tokens])
    return found


def test_other_blocks_tokens_are_refreshed() -> None:
    until = TOKEN_REFRESH - BEFORE
    told = [[until + 1, until], [until + 2, until], [TOKEN_REFRESH, TOKEN_REFRESH]]
    told.append([TOKEN_REFRESH + 1, TOKEN_REFRESH])
    assert worldline.spawn(_counts, ranks=2) == [told, told]
