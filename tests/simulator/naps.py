"""A slow rank: it stands still now and then, with all its programs and its stores under way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Nap:
    """One of a slow rank's.

    Parameters
    ----------
    call : int
        In which call.
    point : int
        At which of the call's memory operations: 0 before all.
    ns : int
        For how long.
    """

    call: int
    point: int
    ns: int


class Naps:
    """A rank's naps, as its programs come to them.

    Parameters
    ----------
    rank : int
        The slow rank; -1 for none.
    naps : tuple of Nap
        In any order.
    """

    def __init__(self, rank: int = -1, naps: tuple[Nap, ...] = ()) -> None:
        self.rank, self._naps = rank, naps
        self._points: Counter[int] = Counter()
        self.until = 0

    def come(self, rank: int, call: int, now: int) -> bool:
        """Count a memory operation; return whether the rank naps before it."""
        if rank != self.rank:
            return False
        for nap in self._naps:
            if (nap.call, nap.point) == (call, self._points[call]):
                self.until = max(self.until, now) + nap.ns
        self._points[call] += 1
        return self.asleep(rank, now)

    def asleep(self, rank: int, now: int) -> bool:
        """Say whether a rank naps."""
        return rank == self.rank and now < self.until
