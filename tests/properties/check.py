"""Run a plan on a world and compare every bit."""

from __future__ import annotations

import random
from collections.abc import Sequence

import worldline
from tests.properties.calls import dawdle, prepare, settle
from tests.properties.plan import Case, plan
from tests.properties.refusals import check_refusals
from tests.properties.replays import check_replays, chosen
from tests.properties.worlds import Setup
from worldline import World
from worldline.primitives import layout

_BATCH = 20
"""Calls that follow each other without a word between the hosts."""
_BORDERS = (1 << 32, 1 << 31, 1 << 29)
"""Where epochs wrap, where they change their sign, and where the sentinel's count does."""


def faults(setup: Setup, only: int | None = None) -> list[str]:
    """Start a world's ranks and test it; return what was wrong, each with its recipe.

    Parameters
    ----------
    setup : Setup
        The world.
    only : int, optional
        The number of the one call to make, in place of all.
    """
    answers = worldline.spawn(check, args=(setup, only), **setup.options)
    return [fault for answer in answers for fault in answer]


def assert_exact(setup: Setup) -> None:
    """Fail unless a world passes; the first faults are told."""
    found = faults(setup)
    assert not found, "\n".join([f"{len(found)} fault(s), the first of them:", *found[:6]])


def check(world: World, setup: Setup, only: int | None) -> list[str]:
    """Be one rank: what is refused, then all calls, across the borders of every counter."""
    found = check_refusals(world, setup)
    rng = random.Random(f"{setup} borders")
    cases = list(enumerate(plan(setup)))
    wanted = cases if only is None else [cases[only]]
    part = -(-len(cases) // len(_BORDERS))
    for place, border in enumerate(_BORDERS):
        begin_before(world, border - rng.randrange(2, 12))
        mine = [(number, case) for number, case in wanted if number // part == place]
        for start in range(0, len(mine), _BATCH):
            found += check_batch(world, setup, mine[start : start + _BATCH])
    if world.device.type == "cuda":
        found += check_replays(world, setup, chosen(wanted))
    return found


def begin_before(world: World, epoch: int) -> None:
    """Make the lane fresh, with all its counters just below a border."""
    world.recover()
    world.lane.set_epoch(epoch)
    # The barrier counts for itself.
    flags = layout.MAX_BLOCKS * layout.MAX_WORLD
    for offset, words in ((layout.ROUNDS, layout.MAX_BLOCKS), (layout.FLAGS, flags)):
        world.lane.arena.fill_words(offset, epoch, words)
    settle(world)


def check_batch(world: World, setup: Setup, cases: Sequence[tuple[int, Case]]) -> list[str]:
    """Make calls one after another, all inputs made before; compare when all are done."""
    calls = [prepare(world, setup, number, case) for number, case in cases]
    settle(world)
    results = []
    for made in calls:
        if made.case.late == world.rank:
            dawdle(world)
        results.append(made.run())
        if made.case.barrier:
            world.barrier()
    settle(world)
    pairs = zip(calls, results, strict=True)
    return [fault for made, result in pairs for fault in made.faults(result)]
