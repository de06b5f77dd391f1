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
from tests.simulator.naps import Naps

LIMIT_NS = 1 << 40
"""A deadline that all steps together do not reach, but naps may."""
_MAX_STEPS = 2_000_000
_MAX_LEAPS = 2_000
_NS_PER_STEP = 1000
_CLOCK_START = 1 << 40


class Hang(ProtocolError):
    """Programs wait for what nobody will send."""


@dataclass
class Launch:
    """One kernel on a rank's stream: ``body()`` for each of ``grid`` blocks.

    Or what the rank's host does between kernels: it is ahead of its stream, and starts beside the
    kernel before it.
    """

    name: str
    grid: int
    body: Callable[[], None]
    call: int = 0
    """The number of the call that it is part of."""
    host: bool = False


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
    until: Callable[[], bool] | None = None
    """What a host waits for."""
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
    naps : Naps
        Of a slow rank.
    in_vain : bool
        Whether a wait in vain runs into its deadline instead of being a hang.
    """

    def __init__(
        self,
        memory: Memory,
        rng: random.Random,
        streams: list[list[Launch]],
        naps: Naps | None = None,
        in_vain: bool = False,
    ) -> None:
        self.memory, self.rng = memory, rng
        self._naps, self._in_vain = naps or Naps(), in_vain
        self._leaps = self._leapt_ns = 0
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
        if self._naps.rank >= 0:
            self._pace[self._naps.rank] /= 100
            self._links[self._naps.rank] = [pace / 100 for pace in self._links[self._naps.rank]]
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
        program = self.running()
        nap = self._naps.come(program.rank, program.launch.call, self.clock_ns())
        if self.rng.random() < self._switch or nap:
            self._hub.switch()

    def sleep(self) -> None:
        """Wait until the own arena has something new, or was not seen in full."""
        self.running().asleep = True
        self._hub.switch()

    def wait(self, until: Callable[[], bool]) -> None:
        """Wait, as a host, until something holds."""
        program = self.running()
        program.until = until
        self._hub.switch()
        program.until = None

    def drained(self, rank: int) -> bool:
        """Say whether a rank's kernels have ended and all their stores are visible."""
        return self._kernels(rank) == [] and not self._pasts[rank].buffer

    def past(self, rank: int) -> Observer:
        """Return what a rank's ended kernels, and its host, have done."""
        return self._pasts[rank]

    def clock_ns(self) -> int:
        """Nanoseconds of a clock that only steps, and leaps while nobody can go on, advance."""
        return _CLOCK_START + self.steps * _NS_PER_STEP + self._leapt_ns

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
        if self._queues[rank] and self._queues[rank][0][1].host:
            self._start_next(rank)

    def _kernels(self, rank: int) -> list[Program]:
        return [program for program in self._running[rank] if not program.launch.host]

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
            self._leap(programs)
        if self.steps > _MAX_STEPS:
            raise Hang(f"no end after {self.steps} steps")
        if ready:
            self._go_on(self._choose(ready), resume)

    def _leap(self, programs: list[Program]) -> None:
        """Let time pass, as nobody can go on: of a nap, or until waits in vain are late."""
        now, until = self.clock_ns(), self._naps.until
        self._leaps += 1
        if self._leaps > _MAX_LEAPS or not (self._in_vain or now < until):
            waiting = "; ".join(map(str, programs))
            raise Hang(f"hang: no store is under way and all wait: {waiting}")
        # While a rank naps the others look at the clock several times before they may be late.
        self._leapt_ns += min(until - now, LIMIT_NS // 8) if now < until else 2 * LIMIT_NS
        for program in programs:
            program.woken_at = -1

    def _storing(self) -> list[tuple[int, Observer]]:
        """List who has stores under way, with their ranks."""
        return [
            (rank, observer)
            for rank, running in enumerate(self._running)
            if not self._naps.asleep(rank, self.clock_ns())
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
        if self._naps.asleep(program.rank, self.clock_ns()):
            return False
        if program.until is not None:
            return program.until()
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
            if not program.launch.host:
                self._ended[rank].append(program.observer)
            if not self._kernels(rank):
                for observer in self._ended[rank]:
                    self.memory.finish(observer)
                self._ended[rank].clear()
            if not self._running[rank]:
                self._start_next(rank)

    def _abandon(self) -> None:
        for program in [program for rank in self._running for program in rank]:
            if program.task and not program.task.dead:
                program.task.throw(greenlet.GreenletExit)
