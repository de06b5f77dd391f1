"""Litmus: hammer the links with wide stores and look for one that is seen in pieces.

No specification promises that a line of 128 bytes arrives whole: LL128 needs it, and a test can
only refute it. Every rank stores into its right neighbour's arena and looks at what its left
neighbour stores, for a while.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from worldline.primitives.cuda_module import CudaModule

SOURCE = Path(__file__).resolve().parent / "cuda" / "litmus.cu"
KINDS = ("stores", "reductions")
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


def hammer(world: Any, seconds: float) -> list[Tally]:
    """Run the litmus on this rank of an idle world of GPUs; collective.

    Parameters
    ----------
    world : World
        Of two ranks or more.
    seconds : float
        For each kind.

    Returns
    -------
    list of Tally
        What this rank saw of its left neighbour's accesses.
    """
    arena, right = world.lane.arena, (world.rank + 1) % world.size
    module = CudaModule(SOURCE, world.device, expressions())
    words = BLOCKS // 2 * THREADS * 16 // 4
    seen = []
    for kind, name in zip(KINDS, expressions(), strict=True):
        if kind == "reductions" and module.capability < (9, 0):
            continue
        counts = torch.zeros(
            BLOCKS // 2 * THREADS, len(TALLIES), dtype=torch.int64, device=world.device
        )
        arena.fill_words(arena.layout.staged, 0, words)
        world.synchronize()
        world.barrier()
        arguments = Arguments(
            arena.bases[world.rank] + arena.layout.staged,
            arena.bases[right] + arena.layout.staged,
            counts.data_ptr(),
            int(seconds * 1e9),
        )
        module.launch(name, arguments, BLOCKS, THREADS)
        world.synchronize()
        world.barrier()
        totals = counts.sum(dim=0)
        world.synchronize()
        seen.append(Tally(kind, *map(int, totals.tolist())))
    return seen


def expressions() -> tuple[str, str]:
    """Return the C++ names of the kernels, in the order of ``KINDS``."""
    return "litmus_lines<false>", "litmus_lines<true>"
