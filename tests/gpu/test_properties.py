"""Every row of the registry on GPUs: all that tests/properties asks of it, graphs included."""

from __future__ import annotations

import pytest

from tests.gpu.places import places
from tests.properties.check import assert_exact
from tests.properties.worlds import Setup


@pytest.mark.parametrize(("provider", "ranks"), places(loopback=range(1, 9)))
def test_every_row(provider: str, ranks: int) -> None:
    assert_exact(Setup(provider, ranks))
