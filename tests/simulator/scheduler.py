"""Streams of kernels on greenlets: every rank x program is one, a seed orders them all.

A rank's kernel starts when all programs of its predecessor have ended, as on a stream. Programs
give way at their memory operations; in between, buffered stores become visible, those of ended
kernels too. A program that waits sleeps until something new became visible in its rank's arena, so
a hang is found exactly: nobody can run and no store is under way.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import greenlet

from tests.simulator.memory import Memory, Observer, ProtocolError

_MAX_STEPS = 2_000_000
_NS_PER_STEP = 1000
_CLOCK_START = 1 << 40


class Hang(ProtocolError):
    """Programs wait for what nobody will send."""


@dataclass
class Launch:
    """One kernel on a rank's stream: ``body(block)`` for each of ``grid`` blocks."""

    name: str
    grid: int
    body: Callable[[], None]


@dataclass
class Program:
    """One block of a launch under way."""

    rank: int
    block: int
    launch: Launch
    number: int
    """The launch's place in its rank's stream."""
    observer: Observer
    pace: float
    task: greenlet.greenlet = field(init=False)
    asleep: bool = False
    woken_at: int = -1
    """The arena's commits when the program last woke: it has looked at all up to these."""

    def __str__(self) -> str:
        return f"rank {self.rank} block {self.block} in kernel {self.number} ({self.launch.name})"


class Scheduler:
    """Runs one world.

    Parameters
    ----------
    memory : Memory
        The arenas.
    rng : Random
        Makes every choice.
    streams : list of lists of Launch
        Each rank's kernels, in order.
    """

    def __init__(self, memory: Memory, rng: random.Random, streams: list[list[Launch]]) -> None:
        self.memory, self.rng = memory, rng
        self._queues = [deque(enumerate(stream)) for stream in streams]
        self._pasts = [Observer() for _ in streams]
        self._running: list[list[Program]] = [[] for _ in streams]
        # Of programs that ended before others of their kernel: to those they are no past.
        self._ended: list[list[Observer]] = [[] for _ in streams]
        self.current: Program | None = None
        self.steps = 0
        # Characters differ by seed: who is slow, how often tasks switch, how long stores linger.
        self._pace = [rng.choice((1.0, 0.1, 0.003)) for _ in streams]
        self._links = self._draw_links(len(streams))
        self._switch = rng.choice((0.1, 0.5, 0.9))
        self._drain = rng.choice((0.02, 0.2, 0.6))
        self._patience = rng.choice((0.5, 0.9))
        self._frozen: Program | None = None
        self._hub = greenlet.getcurrent()

    def run(self, resume: Callable[[Program], None]) -> None:
        """Run all streams to their ends.

        Parameters
        ----------
        resume : callable
            Prepares the interpreter for the program that goes on.

        Raises
        ------
        Hang
            When nothing can go on; says who waits where.
        """
        self._hub = greenlet.getcurrent()
        try:
            for rank in range(len(self._queues)):
                self._start_next(rank)
            while any(self._running):
                self._step(resume)
            # The host waits for all devices, and sees what they did.
            for past in self._pasts:
                self.memory.fence(past)
        finally:
            self._abandon()

    def point(self) -> None:
        """Maybe let others go on: called before every memory operation of a program."""
        self.steps += 1
        if self.rng.random() < self._switch:
            self._hub.switch()

    def sleep(self) -> None:
        """Wait until the own arena has something new, or was not seen in full."""
        self.running().asleep = True
        self._hub.switch()

    def clock_ns(self) -> int:
        """Nanoseconds of a clock that only steps advance."""
        return _CLOCK_START + self.steps * _NS_PER_STEP

    def running(self) -> Program:
        """Return the program that runs."""
        assert self.current is not None
        return self.current

    def _draw_links(self, ranks: int) -> list[list[float]]:
        """Draw the pace of stores from each rank to each: any mix, or slow ones at home alone."""
        if self.rng.random() < 0.5:
            return [[0.001 if to == of else 1.0 for to in range(ranks)] for of in range(ranks)]
        return [[self.rng.choice((1.0, 0.001)) for _ in range(ranks)] for _ in range(ranks)]

    def _start_next(self, rank: int) -> None:
        if not self._queues[rank]:
            return
        number, launch = self._queues[rank].popleft()
        for block in range(launch.grid):
            pace = self._pace[rank] * self.rng.choice((1.0, 1.0, 0.01))
            observer = Observer(past=self._pasts[rank])
            program = Program(rank, block, launch, number, observer, pace)
            program.task = greenlet.greenlet(launch.body)
            self._running[rank].append(program)

    def _step(self, resume: Callable[[Program], None]) -> None:
        programs = [program for rank in self._running for program in rank]
        ready = [program for program in programs if self._awake(program)]
        storing = self._storing()
        busy = [program for program in ready if not program.asleep]
        if storing and self.rng.random() < (self._drain if busy else self._patience):
            self._drain_some(storing, hurry=not ready)
            return
        if busy and self.rng.random() < self._patience:
            ready = busy
        if not ready and not storing:
            waiting = "; ".join(map(str, programs))
            raise Hang(f"hang: no store is under way and all wait: {waiting}")
        if self.steps > _MAX_STEPS:
            raise Hang(f"no end after {self.steps} steps")
        if ready:
            self._go_on(self._choose(ready), resume)

    def _storing(self) -> list[tuple[int, Observer]]:
        """List who has stores under way, with their ranks."""
        return [
            (rank, observer)
            for rank, running in enumerate(self._running)
            for observer in (
                self._pasts[rank],
                *self._ended[rank],
                *(program.observer for program in running),
            )
            if observer.buffer
        ]

    def _drain_some(self, storing: list[tuple[int, Observer]], *, hurry: bool) -> None:
        """Let stores to one arena become visible: each link has a pace of its own."""
        links = [
            (self._links[rank][arena], observer, arena)
            for rank, observer in storing
            for arena in self.memory.arenas(observer)
        ]
        pace, observer, arena = self.rng.choices(links, [link[0] for link in links])[0]
        if hurry or self.rng.random() < pace:
            locations = self.memory.pending(observer, arena)
            count = self.rng.choice((1, len(locations) // 4 + 1, len(locations)))
            for location in self.rng.sample(locations, count):
                self.memory.drain(observer, location)

    def _awake(self, program: Program) -> bool:
        news = self.memory.commits[program.rank] != program.woken_at
        return not program.asleep or program.observer.stale or news

    def _choose(self, ready: list[Program]) -> Program:
        if self.rng.random() < 1 / 64:
            self._frozen = self.rng.choice(ready)
        others = [program for program in ready if program is not self._frozen] or ready
        weights = [program.pace for program in others]
        return self.rng.choices(others, weights)[0]

    def _go_on(self, program: Program, resume: Callable[[Program], None]) -> None:
        if program.asleep:
            program.asleep, program.observer.stale = False, False
            program.woken_at = self.memory.commits[program.rank]
        self.current = program
        resume(program)
        program.task.switch()
        self.current = None
        if program.task.dead:
            rank = program.rank
            self._running[rank].remove(program)
            self._ended[rank].append(program.observer)
            if not self._running[rank]:
                for observer in self._ended[rank]:
                    self.memory.finish(observer)
                self._ended[rank].clear()
                self._start_next(rank)

    def _abandon(self) -> None:
        for program in [program for rank in self._running for program in rank]:
            if program.task and not program.task.dead:
                program.task.throw(greenlet.GreenletExit)
