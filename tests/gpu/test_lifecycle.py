"""Worlds come and go: memory returns, errors at the start name their remedy."""

from __future__ import annotations

import pytest
import torch
from torch.distributed import HashStore

import worldline
from tests.gpu.places import places
from worldline import InvalidArgument, World
from worldline.primitives.bootstrap import Rendezvous
from worldline.primitives.memory_torch import _group, _torch_settings

CYCLES = 200


def cycle(world: World, cycles: int) -> tuple[int, int]:
    """Make and close worlds; return the GPU's free bytes after the first few and at the end."""

    def free() -> int:
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info()[0]

    before = 0
    for number in range(cycles):
        with worldline.init(provider=world.provider, timeout=60) as inner:
            y = inner.all_reduce(torch.ones(1000, device=inner.device))
            inner.synchronize()
            assert y[0] == world.size
        del y
        if number == 3:
            world.barrier()
            before = free()
    world.barrier()
    return before, free()


def refuse(world: World) -> list[str]:
    """Collect what wrong arguments raise."""
    messages = []
    x = torch.ones(8, device=world.device)
    for wrong in (
        lambda: world.all_reduce(torch.ones(8)),
        lambda: world.all_reduce(x, lane=1),
        lambda: world.all_reduce(x, launch=worldline.Launch(16, 1)),
    ):
        try:
            wrong()
        except InvalidArgument as error:
            messages.append(str(error))
    for dtype in (torch.float32, torch.float16):
        # The second was not declared: the ranks meet to load it.
        total = world.all_reduce(x.to(dtype))
        world.synchronize()
        assert (total == world.size).all()
    return messages


def meet_unevenly(world: World) -> bool:
    """Let torch on rank 0 count one meeting more than on the others, then make a world of all."""
    from torch.distributed import _symmetric_memory as symmetric

    if world.rank == 0:
        store = HashStore()
        memory = symmetric._SymmetricMemory
        alone = Rendezvous(store, "alone", 0, 1, 20)
        with _torch_settings(), _group(alone, store) as group:
            own = memory.empty_strided_p2p((1 << 21,), (1,), torch.uint8, world.device)
            memory.rendezvous(own, group)
    with worldline.init(provider="torch", timeout=20) as both:
        total = both.all_reduce(torch.ones(8, device=both.device))
        both.synchronize()
        return bool((total == both.size).all())


@pytest.mark.parametrize(("provider", "ranks"), places(loopback=()))
def test_torch_may_have_met_others_before(provider: str, ranks: int) -> None:
    assert worldline.spawn(meet_unevenly, ranks, provider=provider, deadline=60) == [True] * ranks


@pytest.mark.parametrize(("provider", "ranks"), places())
def test_memory_returns(provider: str, ranks: int) -> None:
    for before, after in worldline.spawn(cycle, ranks, (CYCLES,), provider=provider, deadline=60):
        assert before - after < 1 << 20


@pytest.mark.parametrize(("provider", "ranks"), places())
def test_refusals(provider: str, ranks: int) -> None:
    options = {"provider": provider, "deadline": 60, "dtypes": [torch.float32]}
    for device, lane, block in worldline.spawn(refuse, ranks, **options):
        assert "must be on cuda:" in device
        assert "lane=1: must be a whole number from 0 to 0" in lane
        assert "must be 32 to 512" in block
