"""Scenarios drawn from a seed, from plain to mixed."""

from __future__ import annotations

import random

import torch

from tests.simulator.fault_worlds import FAULTS
from tests.simulator.scenario import Call, Scenario

LL_NAMES = ("ll_one_shot", "ll_two_shot")
SENTINEL_NAMES = ("sentinel_one_shot", "sentinel_two_shot")
NAMES = (*LL_NAMES, *SENTINEL_NAMES, "barrier_one_shot")
DTYPES = (torch.float32, torch.float32, torch.float16, torch.bfloat16)
BEFORE_WRAP = 0xFFFFFFFF
CHANNELS = 3
"""Blocks that have a channel in worlds of sentinel calls."""
CHUNKED = 3400
"""Elements of a float32 call that takes several launches of LL, several passes of the sentinel."""
FAR = 1000
"""Elements of a float32 call whose slots lie far behind those of the small calls before."""


def one_shots(seed: str) -> Scenario:
    """Small one-shot calls one after another."""
    return _repeated("ll_one_shot", random.Random(seed))


def barriers(seed: str) -> Scenario:
    """Small barrier calls one after another."""
    return _repeated("barrier_one_shot", random.Random(seed))


def sentinels(seed: str) -> Scenario:
    """Small one-shot sentinel calls one after another, each stage more than twice."""
    rng = random.Random(seed)
    return _sentinels(rng, ["sentinel_one_shot"] * 7)


def two_shots(seed: str) -> Scenario:
    """Small two-shot sentinel calls one after another."""
    rng = random.Random(seed)
    return _sentinels(rng, ["sentinel_two_shot"] * 7)


def stages(seed: str) -> Scenario:
    """Sentinel calls of both shots: who fills a slot next changes."""
    rng = random.Random(seed)
    return _sentinels(rng, rng.choices(SENTINEL_NAMES, k=8))


def between(seed: str) -> Scenario:
    """Few sentinel calls, each with LL calls in between."""
    rng = random.Random(seed)
    return _sentinels(rng, ["sentinel_one_shot", "ll_one_shot", "ll_one_shot"] * 3)


def _sentinels(rng: random.Random, names: list[str]) -> Scenario:
    """Draw small calls, of one pass or few; blocks' counts soon differ."""
    calls = tuple(
        Call(name, rng.randint(1, 24), grid=rng.randint(1, CHANNELS), block=rng.choice((2, 8)))
        for name in names
    )
    return Scenario(rng.choice((2, 3)), calls, channels=CHANNELS)


def passes(seed: str) -> Scenario:
    """Few one-shot sentinel calls, each of several passes, and blocks that have one less."""
    rng = random.Random(seed)
    return _passes(rng, ["sentinel_one_shot"] * 3)


def two_shot_passes(seed: str) -> Scenario:
    """As :func:`passes`, of both shots."""
    rng = random.Random(seed)
    return _passes(rng, ["sentinel_two_shot", *rng.choices(SENTINEL_NAMES, k=2)])


def turns(seed: str) -> Scenario:
    """One-shot sentinel calls of several passes and of one by turns."""
    rng = random.Random(seed)
    grid = rng.randint(1, 2)
    slots = [rng.randint(2, 6) * grid if i % 3 == 0 else rng.randint(1, grid) for i in range(6)]
    calls = tuple(Call("sentinel_one_shot", n * 4, grid=grid, block=1) for n in slots)
    return Scenario(rng.choice((2, 3)), calls, channels=CHANNELS)


def _passes(rng: random.Random, names: list[str]) -> Scenario:
    """Draw calls whose blocks go through their channels two to six times."""
    world = rng.choice((2, 3))
    calls = []
    for name in names:
        grid, block = rng.randint(1, CHANNELS), rng.choice((1, 2))
        slots = grid * block * rng.randint(2, 6) - rng.randrange(grid * block)
        share = slots * (world if name == "sentinel_two_shot" else 1)
        calls.append(Call(name, share * 4 - rng.randint(0, 3), grid=grid, block=block))
    return Scenario(world, tuple(calls), channels=CHANNELS)


def _repeated(name: str, rng: random.Random) -> Scenario:
    calls = tuple(Call(name, rng.randint(1, 16)) for _ in range(4))
    return Scenario(rng.choice((2, 3)), calls)


def grids(seed: str) -> Scenario:
    """One-shot calls whose grids differ."""
    rng = random.Random(seed)
    calls = tuple(
        Call("ll_one_shot", rng.randint(40, 64), grid=rng.choice((1, 2, 3, 4))) for _ in range(4)
    )
    return Scenario(2, calls)


def mixed(seed: str) -> Scenario:
    """Everything: sizes, algorithms, grids, dtypes, alignments, in place or not, 2 to 4 ranks."""
    rng = random.Random(seed)
    calls = tuple(_any_call(rng) for _ in range(rng.randint(3, 5)))
    epoch = rng.choice((0, 0, 0, BEFORE_WRAP - 1, BEFORE_WRAP - 2, BEFORE_WRAP - 3))
    # Near the wrap LL clears its halves, which grow with the channels.
    channels = 1 if epoch else rng.choice((1, 2, CHANNELS))
    return Scenario(rng.choice((2, 3, 4)), calls, epoch, channels)


def _any_call(rng: random.Random) -> Call:
    name = rng.choice((*NAMES, *NAMES, "barrier"))
    if name == "barrier":
        return Call(name)
    chunked = rng.random() < 0.1
    return Call(
        name,
        count=CHUNKED if chunked else rng.choice((1, 2, 7, 33, 64, 100)),
        grid=rng.randint(1, 4),
        block=256 if chunked else rng.choice((8, 16, 32)),
        dtype=rng.choice(DTYPES),
        offset=rng.randint(0, 1),
        in_place=rng.random() < 0.5,
    )


def wrap(seed: str) -> Scenario:
    """Small calls up to the wrap, then large ones, over slots left from the last round."""
    rng = random.Random(seed)
    before = rng.choice((2, 3))
    small = tuple(
        Call(rng.choice(LL_NAMES), rng.choice((2, 100, FAR)), grid=rng.choice((1, 2)), block=256)
        for _ in range(before)
    )
    large = tuple(
        Call(rng.choice(LL_NAMES), FAR, grid=rng.choice((1, 2)), block=256) for _ in range(2)
    )
    return Scenario(2, small + large, epoch=BEFORE_WRAP - before, stale_slots=True)


def clears(seed: str) -> Scenario:
    """Small calls around the last epochs before the wrap, which clear slots."""
    rng = random.Random(seed)
    calls = tuple(Call(rng.choice(LL_NAMES), rng.randint(2, 64), block=256) for _ in range(4))
    return Scenario(2, calls, epoch=BEFORE_WRAP - 3)


WORLDS = {
    "mixed": mixed,
    "wrap": wrap,
    "clears": clears,
    "grids": grids,
    "barriers": barriers,
    "sentinels": sentinels,
    "turns": turns,
    "between": between,
    "stages": stages,
    "passes": passes,
    "two_shot_passes": two_shot_passes,
    **FAULTS,
}
