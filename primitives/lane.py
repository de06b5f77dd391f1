"""A lane: one arena, one order of operations, one fate.

Operations of a lane follow each other. When a device-side wait passes its deadline the lane is
dead until :func:`recover`; :meth:`Lane.check` turns the device's record into an error that
names the first suspect.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from worldline.primitives import layout
from worldline.primitives.bootstrap import Rendezvous
from worldline.primitives.errors import (
    CollectiveAborted,
    CollectiveError,
    CollectiveTimeout,
    LaneOverlap,
)
from worldline.primitives.memory import Arena, Provider, empty_slots

_BEAT_SECONDS = 0.2
"""A rank that waits in the slow path shows a new beat within this time."""


class Lane:
    """One arena of a world, and what its ranks need to launch on it.

    Parameters
    ----------
    provider : Provider
        Where the arena comes from and what launches kernels.
    arena : Arena
        The arena.
    rank, size : int
        This rank and the number of ranks.
    timeout : float
        Deadline of each device-side wait, in seconds.
    index : int
        Its place among the world's lanes.
    """

    def __init__(
        self,
        provider: Provider,
        arena: Arena,
        rank: int,
        size: int,
        timeout: float,
        index: int = 0,
    ) -> None:
        self.provider, self.arena = provider, arena
        self.rank, self.size, self.timeout, self.index = rank, size, timeout, index
        self._fault: CollectiveError | None = None
        self._recovering = False
        # The watchdog looks for faults beside the thread that launches.
        self._finding = threading.Lock()

    @property
    def limit_ns(self) -> int:
        """The deadline as kernels take it."""
        return int(self.timeout * 1e9)

    def check(self) -> None:
        """Raise if the lane is dead.

        Raises
        ------
        CollectiveTimeout
            Naming the first suspect: the rank waited on that was not itself waiting.
        CollectiveAborted
            Naming the rank that left a collective in the middle.
        LaneOverlap
            Naming the rank on which two operations of the lane ran at once.
        """
        fault = self.fault()
        if fault is None and self._recovering:
            fault = CollectiveAborted("recover", self.rank, self.rank)
        if fault is not None:
            raise fault.with_traceback(None)

    def look(self) -> None:
        """Raise as :meth:`check` does, also where no kernel of this rank has met the dead lane."""
        with self._finding:
            self.arena.look()
        self.check()

    def fault(self) -> CollectiveError | None:
        """Return why the lane is dead, or None while it is not known to be."""
        with self._finding:
            if self._fault is None and not self._recovering and self.arena.dead():
                # A kernel of before a recovery may give notice after it.
                self.arena.look()
                if self.arena.dead():
                    self._fault = self._find_fault()
            return self._fault

    @property
    def alive(self) -> bool:
        """Whether nothing is known against the lane; cheap enough for every call."""
        return self._fault is None and not self._recovering and not self.arena.dead()

    def abort(self, operation: str) -> None:
        """Kill the lane on every rank, unless it is dead: this rank's call ended in an exception.

        Its slots may be half sent and its epoch did not advance; a further call would mix with it.
        """
        if self.arena.read(self.rank, layout.DEAD, 1)[0]:
            return
        self.arena.write(self.rank, layout.ABORTED, [layout.OPERATIONS.index(operation) + 1])
        for step in range(self.size):
            self.arena.write((self.rank + step) % self.size, layout.DEAD, [self.rank + 1])
        with self._finding:
            self._fault = CollectiveAborted(operation, self.rank, self.rank)

    def _find_fault(self) -> CollectiveError:
        reporter = self.arena.read(self.rank, layout.DEAD, 1)[0] - 1
        aborted = self.arena.read(reporter, layout.ABORTED, 1)[0]
        if aborted:
            return CollectiveAborted(layout.OPERATIONS[aborted - 1], self.rank, reporter)
        overlapped = self.arena.read(reporter, layout.OVERLAPPED, 1)[0]
        if overlapped:
            name = layout.OPERATIONS[overlapped - 1]
            return LaneOverlap(name, self.rank, reporter, self.index)
        operation, epoch, _, peer, slot, expected, seen = self.arena.read(
            reporter, layout.RECORD, layout.RECORD_WORDS
        )
        return CollectiveTimeout(
            layout.OPERATIONS[operation],
            rank=self.rank,
            peer=self._first_suspect(reporter, peer),
            reporter=reporter,
            epoch=epoch & 0xFFFFFFFF,
            slot=slot,
            expected=expected & 0xFFFFFFFF,
            seen=seen & 0xFFFFFFFF,
            seconds=self.timeout,
        )

    def _first_suspect(self, reporter: int, peer: int) -> int:
        """Follow who waits for whom from the reporter; a circle blames the reporter's own peer."""
        suspect, met = peer, {reporter}
        while suspect not in met:
            met.add(suspect)
            further = self._waits_for(suspect)
            if further is None:
                return suspect
            suspect = further
        return peer

    def _waits_for(self, rank: int) -> int | None:
        """Name the rank that ``rank`` was waiting for when the lane died, or None."""
        beat = self.arena.read(rank, layout.WAIT_BEAT, 1)[0]
        # This rank's own kernel has ended: what it shows no longer changes.
        until = time.monotonic() + (0.0 if rank == self.rank else _BEAT_SECONDS)
        while True:
            *_, peer, _, _, _, whole = self.arena.read(rank, layout.RECORD, layout.RECORD_WORDS + 1)
            if whole:
                return peer
            waited, now, gave_way = self.arena.read(rank, layout.WAIT_PEER, 3)
            if gave_way or now != beat:
                return waited - 1
            if time.monotonic() >= until:
                return None
            time.sleep(0.005)

    def reset(self) -> None:
        """Clear the arena, while every rank's kernels have ended; the lane stays dead."""
        with self._finding:
            self._recovering = True
            self.arena.clear()
            empty_slots(self.arena)

    def revive(self) -> None:
        """Let operations run again, once every rank has reset."""
        with self._finding:
            self._fault, self._recovering = None, False

    def set_epoch(self, epoch: int) -> None:
        """Let the next operation use the epoch after ``epoch``: a hook to test the wrap.

        Its low 30 bits become the counts of the sentinel's operations and of LL128-atomic's. Every
        rank must do so while the lane is idle and fresh.
        """
        self.arena.fill_words(layout.EPOCHS, epoch, layout.MAX_BLOCKS)
        self.arena.fill_words(layout.STAGES, epoch << 2, layout.MAX_BLOCKS)
        self.arena.fill_words(layout.TURNS, epoch << 2, layout.MAX_BLOCKS)
        self.arena.fill_words(layout.TOKENS, epoch << 2, (layout.LL - layout.TOKENS) // 4)

    def close(self) -> None:
        """Give the arena back."""
        self.arena.close()


def recover(lanes: Sequence[Lane], rendezvous: Rendezvous, timeout: float | None) -> None:
    """Make all lanes of a world usable again; collective.

    Nobody resets while a peer may still be writing: all end their kernels and meet, all reset, all
    meet again. A recovery that fails leaves the lanes dead.
    """
    for lane in lanes:
        lane.arena.drain()
    rendezvous.agree("recover", timeout)
    for lane in lanes:
        lane.reset()
    rendezvous.meet("recovered", timeout)
    for lane in lanes:
        lane.revive()
