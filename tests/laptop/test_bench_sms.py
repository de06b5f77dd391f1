"""How many multiprocessors a call occupies, and which smaller grids are tried; without a GPU."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from worldline.bench import sms
from worldline.kernels.registry import Request, algorithm
from worldline.primitives.layout import ArenaLayout

ROW = algorithm("all_reduce", "sentinel_one_shot_cuda")


class Lane:
    """A lane as far as the sizes of grids depend on it."""

    def __init__(self) -> None:
        self.arena = SimpleNamespace(layout=ArenaLayout(2, 64 << 20))
        self.provider = SimpleNamespace(largest_grid=lambda threads, registers: None)


class World:
    """A world of two."""

    def __init__(self) -> None:
        self.lane = Lane()

    def request(self, collective: str, x: torch.Tensor) -> Request:
        return Request(collective, x.dtype, "sum", x.numel(), 2, "cuda")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a world on a made-up GPU of 132 multiprocessors."""
    gpu = SimpleNamespace(multi_processor_count=132)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    return World()


def test_blocks_spread_over_multiprocessors(world: World) -> None:
    for nbytes, count in ((16, 1), (16 << 10, 8), (1 << 20, 132), (4 << 20, 132)):
        x = torch.empty(nbytes // 2, dtype=torch.bfloat16)
        shape = ROW.launches(world.request("all_reduce", x))[0]
        assert sms.occupied(world, ROW, x, shape) == count


def test_smaller_grids_are_smaller(world: World) -> None:
    x = torch.empty(2 << 20, dtype=torch.bfloat16)
    shapes = sms.smaller_grids(world, ROW, x)
    assert [shape.grid for shape in shapes] == list(sms.GRIDS)
    assert {shape.block for shape in shapes} == {256}
    assert sms.smaller_grids(world, ROW, x[:8]) == []


def test_the_fewest_within_the_bound_are_found() -> None:
    assert sms.fewest([33 / 4, 33 / 16, 33 / 32, 1.0, 1.0]) == 3
    assert sms.fewest([1.02, 1.0]) == 0
    assert sms.fewest([2.0]) == 0
