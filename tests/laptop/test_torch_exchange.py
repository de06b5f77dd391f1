"""Torch's exchanges in a store of Worldline's: numbered by world, bounded in time.

Torch's own class is reachable with GPUs alone; ``Exchange`` does what it does to a store.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from torch.distributed import HashStore, PrefixStore, Store

from worldline.primitives.errors import RendezvousTimeout
from worldline.primitives.torch_exchange import ExchangeStore

SECONDS = 10.0


class Exchange:
    """Exchanges of one process, numbered whatever the store."""

    def __init__(self) -> None:
        self._number = 0

    def gather(self, store: Store, rank: int, size: int, value: bytes) -> list[bytes]:
        """Exchange a value with every rank."""
        keys = [f"CUDASymmetricMemory/{self._number}/{each}" for each in range(size)]
        self._number += 1
        store.set(keys[rank], value)
        for key in keys:
            store.wait([key])
        return [store.get(key) for key in keys]


def test_a_meeting_leaves_no_keys() -> None:
    shared = HashStore()
    exchange = ExchangeStore(PrefixStore("world", shared), SECONDS)
    Exchange().gather(PrefixStore("group", exchange), 0, 1, b"x")
    assert shared.num_keys() == 1
    exchange.forget()
    assert shared.num_keys() == 0


@contextmanager
def meeting(shared: Store, world: str, seconds: float = SECONDS) -> Iterator[Store]:
    """Give the store of one meeting, reached through torch's C++ as torch reaches it."""
    exchange = ExchangeStore(PrefixStore(world, shared), seconds)
    yield PrefixStore("group", exchange)


def test_worlds_of_other_ranks_before_do_not_matter() -> None:
    shared, processes = HashStore(), [Exchange() for _ in range(3)]
    values = [bytes([0, 255, rank]) for rank in range(3)]

    def run(rank: int) -> list[list[bytes]]:
        found = []
        for world, size, exchanges in (("pair", 2, 3), ("all", 3, 2)):
            with meeting(shared, world) as store:
                for _ in range(exchanges if rank < size else 0):
                    found.append(processes[rank].gather(store, rank, size, values[rank]))
        return found

    with ThreadPoolExecutor(3) as pool:
        of_0, of_1, of_2 = pool.map(run, range(3))
    assert of_0 == of_1 == [values[:2]] * 3 + [values] * 2
    assert of_2 == [values] * 2


def test_a_rank_that_does_not_come_is_named() -> None:
    late = pytest.raises(RendezvousTimeout, match=r"rank\(s\) 1 did not come within 0.1 s")
    with meeting(HashStore(), "alone", 0.1) as store, late:
        Exchange().gather(store, 0, 2, b"x")
