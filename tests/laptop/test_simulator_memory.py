"""Litmus tests of the simulated memory: what it must show, and what it must never show."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from tests.simulator.memory import Memory, Observer, ProtocolError

DATA, FLAG, OTHER = 0, 64, 128
STRIDE = 4096
SEEDS = 200
Outcome = tuple[int, int]


def outcomes(litmus: Callable[[Memory, random.Random], Outcome]) -> set[Outcome]:
    """Collect what a litmus test shows over many seeds."""
    shown = set()
    for seed in range(SEEDS):
        rng = random.Random(seed)
        shown.add(litmus(Memory(np.zeros(STRIDE, np.uint8), STRIDE, rng, 0.5), rng))
    return shown


def drain_randomly(memory: Memory, who: Observer, rng: random.Random) -> None:
    while who.buffer and rng.random() < 0.5:
        memory.drain(who, rng.choice(list(who.buffer)))


def settle(memory: Memory, *writers: Observer) -> None:
    """Let all stores under way become visible."""
    for who in writers:
        while who.buffer:
            memory.drain(who, next(iter(who.buffer)))


def newest(memory: Memory, location: int) -> int:
    """Return the newest visible value: what an atomic operation sees."""
    return memory.add(Observer(), location, 8, 0, acquire=False)


def ended(memory: Memory, *values: int) -> Observer:
    """Return the past of a rank whose kernels, one a value, have stored to the data and ended."""
    past = Observer()
    for value in values:
        kernel = Observer(past=past)
        memory.store(kernel, DATA, 8, value)
        memory.finish(kernel)
    return past


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


def test_a_release_holds_back_nothing_else() -> None:
    def litmus(memory: Memory, rng: random.Random) -> Outcome:
        writer = Observer()
        memory.store(writer, DATA, 8, 1)
        memory.barrier(writer)
        memory.release(writer, FLAG, 4, 1)
        memory.store(writer, OTHER, 8, 1)  # by another thread
        drain_randomly(memory, writer, rng)
        return newest(memory, OTHER), newest(memory, DATA)

    assert outcomes(litmus) == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_a_release_is_not_ready_before_what_it_covers() -> None:
    memory = Memory(np.zeros(STRIDE, np.uint8), STRIDE, random.Random(0), 1.0)
    writer = Observer()
    memory.store(writer, DATA, 8, 1)
    memory.barrier(writer)
    memory.release(writer, FLAG, 4, 1)
    assert memory.pending(writer, 0) == [DATA]
    memory.drain(writer, DATA)
    assert memory.pending(writer, 0) == [FLAG]


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


def test_a_kernels_end_leaves_its_stores_under_way() -> None:
    def litmus(memory: Memory, rng: random.Random) -> Outcome:
        past = ended(memory, 1)
        drain_randomly(memory, past, rng)
        seen = newest(memory, DATA)
        settle(memory, past)
        return seen, newest(memory, DATA)

    assert outcomes(litmus) == {(0, 1), (1, 1)}


def test_later_kernels_see_what_earlier_ones_did() -> None:
    def litmus(memory: Memory, rng: random.Random) -> Outcome:
        past = ended(memory, 1, 2)
        drain_randomly(memory, past, rng)
        reader, late_reader = Observer(past=past), Observer(past=past)
        seen = memory.load(reader, DATA, 8)
        drain_randomly(memory, past, rng)
        assert memory.load(reader, DATA, 8) == seen
        return seen, memory.load(late_reader, DATA, 8)

    assert outcomes(litmus) == {(2, 2)}


def test_a_kernel_sees_its_own_store_before_those_of_earlier_ones() -> None:
    def litmus(memory: Memory, rng: random.Random) -> Outcome:
        past = ended(memory, 1)
        writer, sibling = Observer(past=past), Observer(past=past)
        memory.store(writer, DATA, 8, 2)
        drain_randomly(memory, past, rng)
        return memory.load(writer, DATA, 8), memory.load(sibling, DATA, 8)

    assert outcomes(litmus) == {(2, 1)}


def test_stores_of_successive_kernels_to_one_location_keep_their_order() -> None:
    def litmus(memory: Memory, rng: random.Random) -> Outcome:
        past = ended(memory, 1, 2)
        writer = Observer(past=past)
        memory.store(writer, DATA, 8, 3)
        drain_randomly(memory, writer, rng)
        seen = newest(memory, DATA)
        drain_randomly(memory, past, rng)
        then = newest(memory, DATA)
        settle(memory, writer, past)
        assert newest(memory, DATA) == 3
        return seen, then

    shown = outcomes(litmus)
    assert all(seen <= then for seen, then in shown)
    assert {seen for seen, _ in shown} == {0, 1, 2, 3}


def kernels_message(memory: Memory, rng: random.Random, *, how: str) -> Outcome:
    """Pass a message: one kernel stores the data, a later one the flag; what the reader sees."""
    past = ended(memory, 1)
    memory.finish(Observer(past=past))
    writer, reader = Observer(past=past), Observer()
    if how == "fence":
        memory.fence(writer)
    (memory.release if how == "release" else memory.store)(writer, FLAG, 4, 1)
    drain_randomly(memory, writer, rng)
    drain_randomly(memory, past, rng)
    flag = memory.load(reader, FLAG, 4, acquire=True)
    memory.fence(reader)
    memory.barrier(reader)
    return flag, memory.load(reader, DATA, 8)


@pytest.mark.parametrize("how", ["fence", "release"])
def test_a_later_kernel_publishes_what_earlier_ones_did(how: str) -> None:
    shown = outcomes(lambda memory, rng: kernels_message(memory, rng, how=how))
    assert shown == {(0, 0), (0, 1), (1, 1)}


def test_a_kernels_end_publishes_nothing() -> None:
    shown = outcomes(lambda memory, rng: kernels_message(memory, rng, how="nothing"))
    assert shown == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_a_kernels_end_after_a_visible_store_publishes_nothing() -> None:
    def litmus(memory: Memory, rng: random.Random) -> Outcome:
        past = ended(memory, 1)
        settle(memory, past)
        writer, reader = Observer(past=past), Observer()
        memory.store(writer, FLAG, 4, 1)
        settle(memory, writer)
        flag = memory.load(reader, FLAG, 4)
        memory.fence(reader)
        memory.barrier(reader)
        return flag, memory.load(reader, DATA, 8)

    assert (1, 0) in outcomes(litmus)


@pytest.mark.parametrize("how", ["fence", "release"])
def test_what_a_kernel_publishes_follows_earlier_kernels_stores(how: str) -> None:
    def litmus(memory: Memory, rng: random.Random) -> Outcome:
        past = ended(memory, 1)
        writer = Observer(past=past)
        memory.store(writer, DATA, 8, 2)
        memory.barrier(writer)
        if how == "fence":
            memory.fence(writer)
        else:
            memory.release(writer, FLAG, 4, 1)
            memory.drain(writer, FLAG)
        seen = newest(memory, DATA)
        settle(memory, past)
        return seen, newest(memory, DATA)

    assert outcomes(litmus) == {(2, 2)}


def test_a_release_follows_earlier_kernels_stores_to_its_location() -> None:
    def litmus(memory: Memory, rng: random.Random) -> Outcome:
        past = ended(memory, 1)
        writer = Observer(past=past)
        memory.release(writer, DATA, 8, 2)
        settle(memory, writer)
        seen = newest(memory, DATA)
        settle(memory, past)
        return seen, newest(memory, DATA)

    assert outcomes(litmus) == {(2, 2)}


@pytest.mark.parametrize("own", [True, False])
def test_an_atomic_operation_follows_earlier_stores_to_its_location(own: bool) -> None:
    def litmus(memory: Memory, rng: random.Random) -> Outcome:
        past = ended(memory, 1, 2)
        adder = Observer(past=past)
        if own:
            memory.store(adder, DATA, 8, 5)
        old = memory.add(adder, DATA, 8, 1, acquire=False)
        settle(memory, adder, past)
        return old, newest(memory, DATA)

    assert outcomes(litmus) == {(5, 6) if own else (2, 3)}


@pytest.mark.parametrize("acquire", [True, False])
def test_the_next_kernel_knows_what_the_last_one_learned(acquire: bool) -> None:
    def litmus(memory: Memory, rng: random.Random) -> Outcome:
        writer, past = Observer(), Observer()
        memory.store(writer, DATA, 8, 1)
        memory.barrier(writer)
        memory.release(writer, FLAG, 4, 1)
        drain_randomly(memory, writer, rng)
        reader = Observer(past=past)
        flag = memory.load(reader, FLAG, 4, acquire=acquire)
        memory.finish(reader)
        return flag, memory.load(Observer(past=past), DATA, 8)

    assert outcomes(litmus) == {(0, 0), (0, 1), (1, 1)}


def test_a_word_moved_before_all_threads_have_read_it_is_a_race() -> None:
    memory = Memory(np.zeros(STRIDE, np.uint8), STRIDE, random.Random(0), 1.0)
    block = Observer()
    memory.load(block, FLAG, 4, by_all=True)
    with pytest.raises(ProtocolError, match="race inside a block: offset 64"):
        memory.store(block, FLAG, 4, 1)
    memory.barrier(block)
    memory.store(block, FLAG, 4, 1)
