"""The litmus on real links: words of 8 bytes are whole, and it does see new numbers."""

import pytest

import worldline
from tests.gpu.places import places
from worldline.kernels.litmus import KINDS, hammer


@pytest.mark.parametrize(("provider", "ranks"), places(loopback=()))
def test_words_are_whole(provider: str, ranks: int) -> None:
    for tallies in worldline.spawn(hammer, ranks, (0.3,), provider=provider, deadline=60):
        assert [tally.kind for tally in tallies] == list(KINDS)
        for tally in tallies:
            assert tally.looks >= tally.changes > 1000
            assert tally.kind == "reductions" or tally.torn_8 == 0
