"""Litmus: hammer the links with wide stores and look for one that is seen in pieces.

No specification promises that a line of 128 bytes arrives whole: LL128 needs it, and a test can
only refute it. Every rank stores into each other one's arena in turn and looks at what comes into
its own, for a while.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from worldline.primitives.cuda_module import CudaModule

SOURCE = Path(__file__).resolve().parent / "cuda" / "litmus.cu"
STORES, REDUCTIONS = "stores", "reductions"
KINDS = (STORES, REDUCTIONS)
BLOCKS, THREADS = 16, 128
"""Half of the blocks store, half look."""
TALLIES = ("looks", "changes", "torn_8", "torn_16", "torn_128")


class Arguments(ctypes.Structure):
    """``struct Litmus`` of litmus.cuh."""

    _fields_ = (
        ("own", ctypes.c_uint64),
        ("peer", ctypes.c_uint64),
        ("counts", ctypes.c_uint64),
        ("limit_ns", ctypes.c_uint64),
    )


@dataclass(frozen=True)
class Tally:
    """What was seen of one kind of access on all links.

    Parameters
    ----------
    kind : str
        ``"stores"``, or ``"reductions"`` (additions of 16 bytes a lane).
    looks, changes : int
        Looks at a line of 128 bytes, and how many found another number than the look before.
    torn_8, torn_16, torn_128 : int
        Looks that found an 8-byte word, a 16-byte piece or a line in which numbers differed.
    """

    kind: str
    looks: int
    changes: int
    torn_8: int
    torn_16: int
    torn_128: int

    @property
    def bound(self) -> float:
        """Chance of a torn line that is refuted with 95 % confidence, where none was seen."""
        return min(1.0, 3.0 / max(1, self.changes))

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, the bound included."""
        return {**asdict(self), "bound": self.bound}


def add(tallies: Iterable[Tally]) -> list[Tally]:
    """Sum what several ranks have seen, by kind."""
    known = list(tallies)
    return [
        Tally(kind, *(sum(getattr(t, name) for t in known if t.kind == kind) for name in TALLIES))
        for kind in KINDS
        if any(t.kind == kind for t in known)
    ]


def hammer(
    world: Any, seconds: float, together: Callable[[Callable[[], object]], None]
) -> list[Tally]:
    """Run the litmus on this rank of an idle world of GPUs; collective.

    Each rank stores into every other one's memory in turn: all directions are looked at.

    Parameters
    ----------
    world : World
        Of two ranks or more.
    seconds : float
        For each kind.
    together : callable
        Does something on every rank or fails on all of them.

    Returns
    -------
    list of Tally
        What this rank saw of the others' accesses, by kind.
    """
    modules: list[CudaModule] = []
    together(lambda: modules.append(CudaModule(SOURCE, world.device, expressions())))
    seen: list[Tally] = []
    for kind, name in zip(KINDS, expressions(), strict=True):
        if kind == REDUCTIONS and modules[0].capability < (9, 0):
            continue
        for ahead in range(1, world.size):
            one = _Direction(world, kind, (world.rank + ahead) % world.size)
            together(one.prepare)
            limit = int(seconds / (world.size - 1) * 1e9)
            together(functools.partial(one.run, modules[0], name, limit, seen))
    return add(seen)


class _Direction:
    """One kind of access from this rank to a peer, while another's come in."""

    def __init__(self, world: Any, kind: str, peer: int) -> None:
        self._world, self._kind, self._peer = world, kind, peer
        self._counts = torch.empty(0)

    def prepare(self) -> None:
        """Empty the own lines, which nobody stores into yet."""
        arena, device = self._world.lane.arena, self._world.device
        shape = (BLOCKS // 2 * THREADS, len(TALLIES))
        self._counts = torch.zeros(shape, dtype=torch.int64, device=device)
        arena.fill_words(arena.layout.staged, 0, BLOCKS // 2 * THREADS * 16 // 4)
        self._world.synchronize()

    def run(self, module: CudaModule, name: str, limit_ns: int, seen: list[Tally]) -> None:
        """Store and look for a while."""
        arena = self._world.lane.arena
        arguments = Arguments(
            arena.bases[self._world.rank] + arena.layout.staged,
            arena.bases[self._peer] + arena.layout.staged,
            self._counts.data_ptr(),
            limit_ns,
        )
        module.launch(name, arguments, BLOCKS, THREADS)
        totals = self._counts.sum(dim=0)
        self._world.synchronize()
        seen.append(Tally(self._kind, *map(int, totals.tolist())))


def expressions() -> tuple[str, str]:
    """Return the C++ names of the kernels, in the order of ``KINDS``."""
    return "litmus_lines<false>", "litmus_lines<true>"
