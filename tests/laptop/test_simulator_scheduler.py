"""The simulator's scheduler, with small kernels of its own on the simulated memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.simulator.memory import Memory, Observer, ProtocolError

if TYPE_CHECKING:  # it needs greenlet
    from tests.simulator.scheduler import Scheduler

DATA, FLAG = 0, 64
STRIDE = 4096
"""Bytes of one rank's arena."""
SEEDS = 200
Kernel = tuple[int, Callable[["Scheduler", Observer], None]]
"""Its grid, and what each program does."""
Run = Callable[..., list[int]]


@pytest.fixture
def run(require_module: Callable[[str], None]) -> Run:
    """Give a function that runs ranks' streams and returns each arena's first word at the end."""
    require_module("greenlet")
    from tests.simulator.scheduler import Launch, Scheduler

    def run_streams(seed: int, *streams: list[Kernel], freshness: float = 1.0) -> list[int]:
        rng = random.Random(seed)
        arenas = np.zeros(len(streams) * STRIDE, np.uint8)
        memory = Memory(arenas, STRIDE, rng, freshness)

        def launch(grid: int, program: Callable[[Scheduler, Observer], None]) -> Launch:
            return Launch("test", grid, lambda: program(scheduler, scheduler.running().observer))

        launches = [[launch(*kernel) for kernel in stream] for stream in streams]
        scheduler = Scheduler(memory, rng, launches)
        scheduler.run(lambda program: None)
        return arenas.view(np.int64)[:: STRIDE // 8].tolist()

    return run_streams


def put(location: int) -> Kernel:
    """Return a kernel that stores a one."""
    return 1, lambda scheduler, who: scheduler.memory.store(who, location, 8, 1)


def wait(location: int, then: Callable[[Scheduler, Observer], None] | None = None) -> Kernel:
    """Return a kernel that waits for a one, and then does something."""

    def program(scheduler: Scheduler, who: Observer) -> None:
        while scheduler.memory.load(who, location, 8, acquire=True) != 1:
            scheduler.sleep()
        scheduler.memory.barrier(who)
        if then is not None:
            then(scheduler, who)

    return 1, program


def test_a_wait_for_an_ended_kernels_store_ends(run: Run) -> None:
    for seed in range(SEEDS):
        assert run(seed, [put(STRIDE)], [wait(STRIDE)]) == [0, 1]


def test_a_wait_for_nothing_is_a_hang(run: Run) -> None:
    for seed in range(SEEDS):
        with pytest.raises(ProtocolError, match=r"hang: .* rank 1 block 0"):
            run(seed, [put(0)], [wait(STRIDE)])


def test_all_stores_are_visible_after_the_last_kernel(run: Run) -> None:
    for seed in range(SEEDS):
        assert run(seed, [put(0), put(STRIDE)], []) == [1, 1]


def test_a_peer_sees_two_kernels_stores_in_any_order(run: Run) -> None:
    shown: set[int] = set()

    def look(scheduler: Scheduler, who: Observer) -> None:
        shown.add(scheduler.memory.load(who, STRIDE + DATA, 8))

    for seed in range(SEEDS):
        run(seed, [put(STRIDE + DATA), put(STRIDE + FLAG)], [wait(STRIDE + FLAG, look)])
    assert shown == {0, 1}


def test_a_kernel_starts_with_nothing_published(run: Run) -> None:
    shown: set[int] = set()

    def put_at_once(scheduler: Scheduler, who: Observer) -> None:
        scheduler.memory.add(who, STRIDE + DATA, 8, 1, acquire=False)

    def look(scheduler: Scheduler, who: Observer) -> None:
        shown.add(scheduler.memory.load(who, STRIDE + DATA, 8))

    for seed in range(SEEDS):
        streams = [(1, put_at_once), put(STRIDE + FLAG)], [wait(STRIDE + FLAG, look)]
        run(seed, *streams, freshness=0.5)
    assert shown == {0, 1}


def test_a_peer_waits_longer_for_stores_on_a_slow_link(run: Run) -> None:
    home_first: list[int] = []

    def look(scheduler: Scheduler, who: Observer) -> None:
        home_first.append(scheduler.memory.load(who, 0, 8))

    for seed in range(SEEDS):
        run(seed, [put(0), put(STRIDE)], [wait(STRIDE, look)])
    # In half of the seeds only links home are slow. Without a pace the two would be even.
    assert sum(home_first) / SEEDS < 0.4


def test_a_program_that_ended_is_no_past_to_others_of_its_kernel(run: Run) -> None:
    shown: set[tuple[int, int]] = set()
    stored: set[int] = set()

    def program(scheduler: Scheduler, who: Observer) -> None:
        if scheduler.running().block == 0:
            scheduler.memory.store(who, DATA, 8, 1)
            stored.add(seed)
        else:
            while seed not in stored:
                scheduler.point()
            shown.add((1, scheduler.memory.load(who, DATA, 8)))

    def successor(scheduler: Scheduler, who: Observer) -> None:
        shown.add((2, scheduler.memory.load(who, DATA, 8)))

    for seed in range(SEEDS):
        run(seed, [(2, program), (1, successor)])
    assert shown == {(1, 0), (1, 1), (2, 1)}
