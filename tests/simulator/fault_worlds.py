"""Scenarios in which something goes wrong: slow ranks, lost stores, stale slots, recovery."""

from __future__ import annotations

import random

from tests.simulator.faults import Faults
from tests.simulator.naps import Nap
from tests.simulator.scenario import Call, Scenario
from tests.simulator.scheduler import LIMIT_NS
from worldline.kernels.protocols import LL
from worldline.kernels.registry import algorithms

_ROWS = algorithms("all_reduce", "cpu")
NAMES = tuple(row.name for row in _ROWS)
_LL_NAMES = tuple(row.name for row in _ROWS if row.protocol is LL)
_EPOCHS = (3, 9, 70_001, 0x200004, 0xC0000001, 0xFFFFFFFA, 0xFFFFFFFC, 0xFFFFFFFD)
"""Last epochs: there are older ones of every distance, and the wrap is near or far."""


def _calls(
    rng: random.Random, least: int, most: int, names: tuple[str, ...] = NAMES
) -> tuple[Call, ...]:
    """Draw small calls of any algorithm, of one pass or few."""
    return tuple(
        Call(
            rng.choice(names),
            rng.choice((1, 7, 24, 40)),
            grid=rng.randint(1, 2),
            block=rng.choice((4, 8)),
            in_place=rng.random() < 0.5,
        )
        for _ in range(rng.randint(least, most))
    )


def _too_long(rng: random.Random) -> int:
    return LIMIT_NS * rng.randint(11, 16) // 8


def slow(seed: str) -> Scenario:
    """A slow rank, within the deadline.

    A wait spans three of its calls at most: the end of one, the next, and the one after, which
    cannot end. So each may take a quarter of the deadline, or one nearly all of it.
    """
    rng = random.Random(seed)
    world, calls = rng.choice((2, 3, 4)), _calls(rng, 3, 4)
    if rng.random() < 0.5:
        naps = [Nap(rng.randrange(len(calls)), rng.randrange(20), LIMIT_NS // 128 * 127)]
    else:
        naps = [
            Nap(call, rng.randrange(30) if part else 0, LIMIT_NS >> 3 + part)
            for call in range(len(calls))
            for part in range(2)
        ]
    return Scenario(world, calls, channels=2, faults=Faults(rng.randrange(world), tuple(naps)))


def late(seed: str) -> Scenario:
    """A slow rank, beyond the deadline; the last call is for the dead lane to refuse."""
    rng = random.Random(seed)
    return _late(rng, _calls(rng, 3, 4))


def late_barriers(seed: str) -> Scenario:
    """As :func:`late`, with calls whose data lies with its sender until all have read it."""
    rng = random.Random(seed)
    return _late(rng, _calls(rng, 3, 3, ("barrier_one_shot",)))


def _late(rng: random.Random, calls: tuple[Call, ...]) -> Scenario:
    world = rng.choice((2, 3, 4))
    certain = rng.random() < 0.4
    nap = Nap(rng.randrange(len(calls) - 1), 0 if certain else rng.randrange(1, 30), _too_long(rng))
    faults = Faults(rng.randrange(world), (nap,), late=True, certain=certain)
    return Scenario(world, calls, channels=2, faults=faults)


def lost(seed: str) -> Scenario:
    """One store of a flag, token or slot never reaches its peer."""
    rng = random.Random(seed)
    calls = _calls(rng, 3, 3)
    return Scenario(rng.choice((2, 3, 4)), calls, channels=2, faults=Faults(lost=rng.randrange(40)))


def stale(seed: str) -> Scenario:
    """LL calls on slots that older ones have left, also next to the wrap."""
    rng = random.Random(seed)
    calls = _calls(rng, 2, 4, _LL_NAMES)
    return Scenario(rng.choice((2, 3)), calls, epoch=rng.choice(_EPOCHS), older_slots=True)


def stale_lost(seed: str) -> Scenario:
    """As :func:`stale`, and one store never comes."""
    rng = random.Random(seed)
    calls = _calls(rng, 2, 2, _LL_NAMES)
    return Scenario(
        rng.choice((2, 3)),
        calls,
        epoch=rng.choice(_EPOCHS[:5]),
        older_slots=True,
        faults=Faults(lost=rng.randrange(24)),
    )


def abandoned(seed: str) -> Scenario:
    """A rank is late in a call, or never comes to it; all recover, and go on."""
    rng = random.Random(seed)
    world = rng.choice((2, 3, 4))
    before, dead, after = _calls(rng, 1, 2), _calls(rng, 1, 2), _calls(rng, 3, 4)
    missed = rng.random() < 0.4
    nap = Nap(len(before), rng.randrange(30), _too_long(rng))
    faults = Faults(
        slow=rng.randrange(world),
        naps=() if missed else (nap,),
        late=True,
        certain=missed,
        missed=len(before) if missed else None,
        recovery=len(before) + len(dead),
    )
    return Scenario(world, before + dead + after, channels=2, faults=faults)


FAULTS = {
    "slow": slow,
    "late": late,
    "late_barriers": late_barriers,
    "lost": lost,
    "stale": stale,
    "stale_lost": stale_lost,
    "abandoned": abandoned,
}
