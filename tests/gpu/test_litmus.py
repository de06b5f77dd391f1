"""The litmus on real links: words of 8 bytes are whole, and it does see new numbers."""

from __future__ import annotations

import pytest

import worldline
from tests.gpu.places import places
from worldline.kernels.litmus import KINDS
from worldline.kernels.litmus_verdict import ENOUGH
from worldline.lines import litmus


@pytest.mark.parametrize(("provider", "ranks"), places(loopback=()))
def test_words_are_whole(provider: str, ranks: int) -> None:
    told, *others = worldline.spawn(litmus, ranks, (0.3,), provider=provider, deadline=60)
    assert all(other == told for other in others)
    assert told["fewest"]["stores"] >= ENOUGH
    assert [tally["kind"] for tally in told["tallies"]] == list(KINDS)
    stores, *_ = told["tallies"]
    assert stores["torn_8"] == 0
