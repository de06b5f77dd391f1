"""The limit on real GPUs: times that hardware can have, and the loop above its bound."""

import pytest

import worldline
from tests.gpu.places import places
from worldline.bench.limits import measure, ratios


@pytest.mark.parametrize(("provider", "ranks"), places(loopback=()))
def test_times_are_possible(provider: str, ranks: int) -> None:
    times = worldline.spawn(measure, ranks, (3,), provider=provider, deadline=60)[0]
    assert 50 < times["load"] < times["store"] < 10_000
    assert times["load"] < times["remote load"] < 10_000
    assert ratios(times)["loop to bound"] > 0.9
