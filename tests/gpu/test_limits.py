"""The limit on real GPUs: times that hardware can have, and no loop faster than a store."""

import pytest

import worldline
from tests.gpu.places import places
from worldline.bench.limits import measure


@pytest.mark.parametrize(("provider", "ranks"), places(loopback=()))
def test_times_are_possible(provider: str, ranks: int) -> None:
    times = worldline.spawn(measure, ranks, (3,), provider=provider, deadline=60)[0]
    assert 50 < times["load"] < times["store"] < 10_000
    assert times["load"] < times["remote load"] < 10_000
    # Each round of the loop waits for a store of the peer's.
    assert times["ll loop"] > 0.9 * times["store"]
