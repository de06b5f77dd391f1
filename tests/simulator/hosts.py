"""The ranks' hosts: the true lanes and their recovery, on simulated arenas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.simulator.interpreter import launcher
from tests.simulator.scheduler import Launch, Scheduler
from worldline.primitives import lane as lane_module
from worldline.primitives.errors import CollectiveError
from worldline.primitives.lane import Lane
from worldline.primitives.layout import ArenaLayout
from worldline.primitives.memory_host import HostArena


class SimulatedArena(HostArena):
    """A rank's view of all arenas, whose stores are the simulator's while it runs."""

    def __init__(self, arenas: np.ndarray, rank: int, layout: ArenaLayout) -> None:
        super().__init__(arenas, rank, layout.size, layout)  # type: ignore[arg-type]
        self.scheduler: Scheduler | None = None

    def drain(self) -> None:
        """Wait until this rank's kernels have ended and what they stored is everywhere."""
        assert self.scheduler is not None
        scheduler = self.scheduler
        scheduler.wait(lambda: scheduler.drained(self._rank))

    def fill_words(self, offset: int, value: int, words: int) -> None:
        """Set int32 words of the own arena."""
        self._give_way()
        super().fill_words(offset, value, words)
        self._rewritten(offset, offset + 4 * words)

    def clear(self) -> None:
        """Zero the own arena."""
        self._give_way()
        super().clear()
        self._rewritten(0, self._stride)

    def _give_way(self) -> None:
        if self.scheduler is not None:
            self.scheduler.point()

    def _rewritten(self, first: int, end: int) -> None:
        if self.scheduler is not None:
            start, past = self._rank * self._stride, self.scheduler.past(self._rank)
            self.scheduler.memory.rewritten(past, start + first, start + end)


class Recorder:
    """The provider of a rank, as far as the launcher looks at it: it records kernels."""

    def __init__(self) -> None:
        self.stream: list[Launch] = []
        self.call = 0

    def largest_grid(self, threads: int, registers: int) -> None:
        """Any number of blocks may wait on each other."""

    def launch(self, kernel: Any, grid: int, args: tuple[Any, ...], **constants: Any) -> None:
        """Put a kernel on the rank's stream."""
        body = launcher(kernel, args, constants)
        self.stream.append(Launch(kernel.fn.__name__, grid, body, self.call))

    def on_host(self, name: str, body: Callable[[], None]) -> None:
        """Put what the host does on the rank's stream."""
        self.stream.append(Launch(name, 1, body, self.call, host=True))


class Meeting:
    """Where hosts meet to recover, and what each lane says of its death as all have come."""

    def __init__(self, lanes: list[Lane]) -> None:
        self._lanes = lanes
        self._come: Counter[str] = Counter()
        self.known: dict[int, CollectiveError | None] = {}

    def host(self, rank: int, scheduler: Callable[[], Scheduler]) -> Callable[[], None]:
        """Return what a rank's host does."""
        lane = self._lanes[rank]
        # Looked up late, as a bug may be planted there.
        return lambda: lane_module.recover([lane], _Rendezvous(self, scheduler()), None)  # type: ignore[arg-type]

    def come(self, what: str, scheduler: Scheduler) -> None:
        """Meet."""
        self._come[what] += 1
        everybody = len(self._lanes)
        if what == "recover" and self._come[what] == everybody:
            self.known = {lane.rank: lane.fault() for lane in self._lanes}
        scheduler.wait(lambda: self._come[what] == everybody)


class _Rendezvous:
    """One rank's way to the meeting."""

    def __init__(self, meeting: Meeting, scheduler: Scheduler) -> None:
        self._meeting, self._scheduler = meeting, scheduler

    def agree(self, what: str, timeout: float | None) -> None:
        """Meet afresh."""
        self._meeting.come(what, self._scheduler)

    def meet(self, what: str, timeout: float | None) -> None:
        """Meet again."""
        self._meeting.come(what, self._scheduler)
