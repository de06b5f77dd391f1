"""Litmus tests of the simulated memory: what it must show, and what it must never show."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from tests.simulator.memory import Memory, Observer, ProtocolError

DATA, FLAG = 0, 64
SEEDS = 200
Outcome = tuple[int, int]


def outcomes(litmus: Callable[[Memory, random.Random], Outcome]) -> set[Outcome]:
    """Collect what a litmus test shows over many seeds."""
    shown = set()
    for seed in range(SEEDS):
        rng = random.Random(seed)
        shown.add(litmus(Memory(np.zeros(4096, np.uint8), 4096, rng, 0.5), rng))
    return shown


def drain_randomly(memory: Memory, who: Observer, rng: random.Random) -> None:
    while who.buffer and rng.random() < 0.5:
        memory.drain(who, rng.choice(list(who.buffer)))


def message(
    memory: Memory,
    rng: random.Random,
    *,
    release: bool = True,
    acquire: bool = True,
    barriers: tuple[bool, bool] = (True, True),
) -> Outcome:
    """Pass a message: data, then a flag; returns the flag and the data as the reader sees them."""
    writer, reader = Observer(), Observer()
    memory.store(writer, DATA, 8, 1)
    if barriers[0]:
        memory.barrier(writer)
    (memory.release if release else memory.store)(writer, FLAG, 4, 1)
    drain_randomly(memory, writer, rng)
    flag = memory.load(reader, FLAG, 4, acquire=acquire)
    if barriers[1]:
        memory.barrier(reader)
    return flag, memory.load(reader, DATA, 8)


def test_release_and_acquire_pass_a_message() -> None:
    shown = outcomes(message)
    assert (1, 0) not in shown
    assert {(0, 0), (1, 1)} <= shown


@pytest.mark.parametrize(
    "weaker",
    [
        {"release": False},
        {"acquire": False},
        {"barriers": (False, True)},
        {"barriers": (True, False)},
    ],
    ids=str,
)
def test_anything_weaker_may_lose_the_data(weaker: dict[str, object]) -> None:
    assert (1, 0) in outcomes(lambda memory, rng: message(memory, rng, **weaker))


def fenced(memory: Memory, rng: random.Random, *, fence: bool) -> Outcome:
    """Order two relaxed stores, as before the wrap; returns the later and the earlier as seen."""
    writer, reader = Observer(), Observer()
    memory.store(writer, DATA, 8, 1)
    memory.barrier(writer)
    if fence:
        memory.fence(writer)
    memory.store(writer, FLAG, 4, 1)
    drain_randomly(memory, writer, rng)
    flag = memory.load(reader, FLAG, 4)
    memory.fence(reader)
    memory.barrier(reader)
    return flag, memory.load(reader, DATA, 8)


def test_a_fence_orders_relaxed_stores() -> None:
    assert (1, 0) not in outcomes(lambda memory, rng: fenced(memory, rng, fence=True))
    assert (1, 0) in outcomes(lambda memory, rng: fenced(memory, rng, fence=False))


def test_loads_of_one_location_never_go_back() -> None:
    def litmus(memory: Memory, rng: random.Random) -> Outcome:
        writer, reader = Observer(), Observer()
        memory.store(writer, DATA, 8, 1)
        drain_randomly(memory, writer, rng)
        return memory.load(reader, DATA, 8), memory.load(reader, DATA, 8)

    assert outcomes(litmus) == {(0, 0), (0, 1), (1, 1)}


def test_a_program_sees_its_own_stores() -> None:
    def litmus(memory: Memory, rng: random.Random) -> Outcome:
        writer = Observer()
        memory.store(writer, DATA, 8, 1)
        memory.store(writer, DATA, 8, 2)
        drain_randomly(memory, writer, rng)
        return memory.load(writer, DATA, 8), len(writer.buffer)

    assert {value for value, _ in outcomes(litmus)} == {2}


def test_both_may_miss_the_others_store() -> None:
    def litmus(memory: Memory, rng: random.Random) -> Outcome:
        left, right = Observer(), Observer()
        memory.store(left, DATA, 8, 1)
        memory.store(right, FLAG, 8, 1)
        drain_randomly(memory, left, rng)
        drain_randomly(memory, right, rng)
        return memory.load(left, FLAG, 8), memory.load(right, DATA, 8)

    assert outcomes(litmus) == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_the_next_kernel_sees_what_the_last_one_did() -> None:
    def litmus(memory: Memory, rng: random.Random) -> Outcome:
        first = Observer()
        memory.store(first, DATA, 8, 1)
        drain_randomly(memory, first, rng)
        known = memory.finish(first)
        return 0, memory.load(Observer(dict(known), known), DATA, 8)

    assert outcomes(litmus) == {(0, 1)}


def test_a_word_moved_before_all_threads_have_read_it_is_a_race() -> None:
    memory = Memory(np.zeros(4096, np.uint8), 4096, random.Random(0), 1.0)
    block = Observer()
    memory.load(block, FLAG, 4, by_all=True)
    with pytest.raises(ProtocolError, match="race inside a block: offset 64"):
        memory.store(block, FLAG, 4, 1)
    memory.barrier(block)
    memory.store(block, FLAG, 4, 1)
