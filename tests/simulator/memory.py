"""The arenas' memory as a GPU may show it: delayed stores, stale loads, release and acquire.

Every location keeps all the values that it ever held, in coherence order. A program knows a
*floor* per location, the oldest of these that it may still read; a load returns any value from the
floor on and raises the floor (coherence). Stores wait in the program's buffer and become visible in
any order, those to one location in theirs. A *view* is a set of floors: a release sends the
writer's view along with the value, an acquire takes it over.

A release waits in the buffer too, until all that it covers is visible. It holds back nothing else:
other threads of the block may store meanwhile, and a peer may see that first.

A program is many threads, of which the interpreter shows one. So a release or an acquire covers
what other threads of the program did only across a block barrier: a release publishes the stores
issued before the last barrier, and what an acquire learned counts from the next barrier on.

A kernel's end promises its stores to the kernels that follow on its rank, and to nobody else. Those
still under way stay so, as the rank's *past*: later kernels of the rank see them as done, and their
fences and releases cover them, but a peer may see later relaxed stores first.

Nothing here knows Triton: locations are offsets, values are integers.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

View = dict[int, int]
_FORMATS = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}


class ProtocolError(AssertionError):
    """The kernels did what the protocol forbids."""


@dataclass(slots=True)
class Pending:
    """A store that is not visible yet."""

    location: int
    value: int
    view: View
    covered: bool = False
    after: list[Pending] = field(default_factory=list)
    """Of a release: the stores that it covers."""
    index: int | None = None
    """Its place in the history of its location, once it is visible."""

    @property
    def held(self) -> bool:
        """Whether it is a release that still waits for a store."""
        return bool(self.after) and any(pending.index is None for pending in self.after)


@dataclass
class Writer:
    """Stores under way, by location, and the floors of who issued them."""

    floors: View = field(default_factory=dict)
    buffer: dict[int, list[Pending]] = field(default_factory=dict)


@dataclass
class Observer(Writer):
    """What one program knows of the memory, and its stores under way."""

    past: Writer = field(default_factory=Writer)
    """The rank's ended kernels, as one: their floors hold here, their stores come first."""
    published: View = field(default_factory=dict)
    """Floors at the last fence: relaxed stores carry them."""
    heard: dict[int, View] = field(default_factory=dict)
    """Views that relaxed loads met: they count from a fence or the kernel's end on."""
    acquired: list[View] = field(default_factory=list)
    """Views that acquiring loads met: they count from the next block barrier on."""
    read_by_all: set[int] = field(default_factory=set)
    """Locations that every thread has loaded since the last block barrier."""
    stale: bool = False
    """Whether a load since the last reset returned an old value."""


def join(floors: View, views: Iterable[View]) -> None:
    """Raise floors to those of some views."""
    for view in views:
        for location, index in view.items():
            if index > floors.get(location, 0):
                floors[location] = index


class Memory:
    """All ranks' arenas, one after another.

    Parameters
    ----------
    arenas : ndarray
        Their bytes; holds the newest visible values.
    stride : int
        Bytes of one arena.
    rng : Random
        Makes every choice.
    freshness : float
        Chance that a load takes the newest value.
    """

    def __init__(
        self, arenas: np.ndarray, stride: int, rng: random.Random, freshness: float
    ) -> None:
        self._words = {width: arenas.view(dtype) for width, dtype in _FORMATS.items()}
        self._stride, self._rng, self._freshness = stride, rng, freshness
        self._history: dict[int, list[tuple[int, View]]] = {}
        self._width: dict[int, int] = {}
        self.commits = [0] * (len(arenas) // stride)
        """Stores that became visible in each arena."""

    def load(
        self,
        who: Observer,
        location: int,
        width: int,
        *,
        acquire: bool = False,
        by_all: bool = False,
    ) -> int:
        """Read one of the values that the program may see."""
        if by_all:
            who.read_by_all.add(location)
        for writer in (who, who.past):
            if location in writer.buffer:
                return writer.buffer[location][-1].value
        history = self._versions(location, width)
        newest = len(history) - 1
        index = newest
        floor = max(who.floors.get(location, 0), who.past.floors.get(location, 0))
        if floor < newest and self._rng.random() >= self._freshness:
            index = self._rng.randint(floor, newest)
            who.stale |= index < newest
        return self._take(who, location, index, acquire)

    def add(self, who: Observer, location: int, width: int, value: int, *, acquire: bool) -> int:
        """Add atomically; returns the old value, which is always the newest."""
        while location in who.past.buffer or location in who.buffer:
            self._commit_oldest(who, location)
        newest = len(self._versions(location, width)) - 1
        old = self._take(who, location, newest, acquire)
        if value:
            self._append(who, location, old + value, self._history[location][newest][1])
        return old

    def store(self, who: Observer, location: int, width: int, value: int) -> None:
        """Issue a relaxed or plain store."""
        self._check_race(who, location)
        self._versions(location, width)
        self._issue(who, Pending(location, value, who.published))

    def release(self, who: Observer, location: int, width: int, value: int) -> None:
        """Publish, by one thread: covers the past and the stores before the last block barrier."""
        self._check_race(who, location)
        self._versions(location, width)
        view = self._known(who)
        join(view, who.acquired)
        covered = [
            pending
            for writer in (who.past, who)
            for stores in writer.buffer.values()
            for pending in stores
            if pending.covered
        ]
        self._issue(who, Pending(location, value, view, after=covered))

    def rewritten(self, past: Observer, first: int, end: int) -> None:
        """Take over bytes that a rank's host has written: at once, whatever is under way."""
        for location in [place for place in self._history if first <= place < end]:
            width = self._width[location]
            self._append(past, location, int(self._words[width][location // width]), {})

    def fence(self, who: Observer) -> None:
        """Fence by every thread: covers the past and the stores before the last block barrier."""
        self._commit_covered(who)
        who.acquired.extend(who.heard.values())
        who.heard.clear()
        who.published = self._known(who)

    def barrier(self, who: Observer) -> None:
        """Block barrier: what one thread has done or learned holds for all."""
        for stores in who.buffer.values():
            for pending in stores:
                pending.covered = True
        join(who.floors, who.acquired)
        who.acquired.clear()
        who.read_by_all.clear()

    def arenas(self, writer: Writer) -> set[int]:
        """Return the arenas to which a writer has stores that may become visible next."""
        return {stores[0].location // self._stride for stores in self._ready(writer)}

    def pending(self, writer: Writer, arena: int) -> list[int]:
        """List the locations of a writer's stores to an arena that may become visible next."""
        places = [stores[0].location for stores in self._ready(writer)]
        return [location for location in places if location // self._stride == arena]

    def drain(self, who: Observer, location: int) -> None:
        """Let the oldest store to a location become visible: the past's, where it has one."""
        self._commit_oldest(who, location)

    def finish(self, who: Observer) -> None:
        """End of the program's kernel: what it did and learned is its rank's past."""
        self.barrier(who)  # the end of all threads covers what each has done
        join(who.past.floors, (who.floors, *who.heard.values()))
        for location, stores in who.buffer.items():
            who.past.buffer.setdefault(location, []).extend(stores)

    def _issue(self, who: Observer, pending: Pending) -> None:
        who.buffer.setdefault(pending.location, []).append(pending)

    @staticmethod
    def _ready(writer: Writer) -> list[list[Pending]]:
        return [stores for stores in writer.buffer.values() if not stores[0].held]

    def _known(self, who: Observer) -> View:
        known = dict(who.past.floors)
        join(known, [who.floors])
        return known

    def _versions(self, location: int, width: int) -> list[tuple[int, View]]:
        history = self._history.get(location)
        if history is None:
            self._width[location] = width
            history = [(int(self._words[width][location // width]), {})]
            self._history[location] = history
        if self._width[location] != width:
            raise ProtocolError(f"location {location}: accesses of {width} bytes and of others")
        return history

    def _take(self, who: Observer, location: int, index: int, acquire: bool) -> int:
        value, view = self._history[location][index]
        who.floors[location] = index
        if view:
            if acquire:
                who.acquired.append(view)
            else:
                who.heard[id(view)] = view
        return value

    def _check_race(self, who: Observer, location: int) -> None:
        if location in who.read_by_all:
            offset = location % self._stride
            raise ProtocolError(
                f"race inside a block: offset {offset} is stored without a block barrier after "
                "a load by all threads, of which some may come late"
            )

    def _commit_covered(self, who: Observer) -> None:
        for writer in (who.past, who):
            for location in list(writer.buffer):
                while location in writer.buffer and writer.buffer[location][0].covered:
                    self._commit_oldest(who, location)

    def _commit_oldest(self, who: Observer, location: int) -> None:
        """Make the oldest store to a location visible, and before it what it covers."""
        writer = who.past if location in who.past.buffer else who
        stores = writer.buffer[location]
        pending = stores[0]
        for earlier in pending.after:
            while earlier.index is None:
                self._commit_oldest(who, earlier.location)
            join(pending.view, [{earlier.location: earlier.index}])
        pending.after.clear()
        stores.pop(0)
        if not stores:
            del writer.buffer[location]
        pending.index = self._append(writer, location, pending.value, pending.view)

    def _append(self, writer: Writer, location: int, value: int, view: View) -> int:
        width = self._width[location]
        history = self._history[location]
        history.append((value, view))
        writer.floors[location] = len(history) - 1
        self._words[width][location // width] = value
        self.commits[location // self._stride] += 1
        return len(history) - 1
