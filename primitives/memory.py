"""Symmetric memory: one arena per world and lane, behind one provider interface.

A provider allocates the arenas of one world, lets every rank reach every other's, and runs kernels
on them. What lies where inside an arena is :mod:`worldline.primitives.layout`'s matter.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from worldline.primitives.bootstrap import Rendezvous
from worldline.primitives.copies import Copies
from worldline.primitives.layout import SENTINEL_STAGES, ArenaLayout


class Arena(Protocol):
    """One rank's view of all arenas of a world and lane.

    Attributes
    ----------
    layout : ArenaLayout
        The map, equal on all ranks.
    bases : tuple of int
        Base of every arena, as kernels of this rank see it.
    notice : int
        Address of the int64 word that kernels raise for the host when the lane is dead.
    table : int
        Address, for kernels, of the int64 ``bases`` followed by ``notice``.
    copies : Copies
        What moves bulk data without a kernel of ours.
    """

    layout: ArenaLayout
    bases: tuple[int, ...]
    notice: int
    table: int
    copies: Copies

    def dead(self) -> bool:
        """Say whether a kernel that has ended here found the lane dead; waits for nothing."""
        ...

    def look(self) -> None:
        """Read the lane's dead word itself, so that :meth:`dead` knows what peers have done."""
        ...

    def drain(self) -> None:
        """Wait until every kernel that this rank has launched has ended."""
        ...

    def read(self, rank: int, offset: int, words: int) -> list[int]:
        """Read int64 words of a rank's arena."""
        ...

    def write(self, rank: int, offset: int, words: list[int]) -> None:
        """Write int64 words of a rank's arena, in order."""
        ...

    def fill_words(self, offset: int, value: int, words: int) -> None:
        """Set int32 words of the own arena."""
        ...

    def clear(self) -> None:
        """Zero the own arena: slots, flags, epochs, dead word and record."""
        ...

    def close(self) -> None:
        """Give the memory back; a second call does nothing."""
        ...


class Provider(Protocol):
    """A way to get symmetric memory.

    Attributes
    ----------
    name : str
        What users call it.
    device_type : str
        The torch device type of the tensors it takes.
    """

    name: str
    device_type: str

    def device(self) -> torch.device:
        """Return the device of this rank's tensors."""
        ...

    def unavailable(self) -> str | None:
        """Say why this machine cannot use it and the remedy, or None where it can."""
        ...

    def default_bytes(self, world_size: int) -> int:
        """Bytes of each rank's arena unless the user says otherwise."""
        ...

    def prepare(self) -> None:
        """Make this process ready, before any kernel's module is imported."""
        ...

    def allocate(self, rendezvous: Rendezvous, layout: ArenaLayout) -> Arena:
        """Allocate and map the arenas of a world; collective."""
        ...

    def largest_grid(self, threads: int, registers: int) -> int | None:
        """Blocks of a launch that may wait on each other, or None where any number may.

        Parameters
        ----------
        threads : int
            Threads of each block.
        registers : int
            Registers of each thread.
        """
        ...

    def alone(self) -> AbstractContextManager[object]:
        """Keep this process's other threads from launching amid a call, where they must not."""
        ...

    def load(self, kernel: Any, args: tuple[Any, ...], **constants: Any) -> None:
        """Compile and load a Triton kernel without running it."""
        ...

    def launch(self, kernel: Any, grid: int, args: tuple[Any, ...], **constants: Any) -> None:
        """Run a Triton kernel over ``grid`` programs."""
        ...


def empty_slots(arena: Arena) -> None:
    """Make a zeroed arena ready: its sentinel slots are all ones while they are empty.

    No peer may send before every rank has done so.
    """
    layout = arena.layout
    arena.fill_words(layout.sentinel, -1, SENTINEL_STAGES * layout.stage // 4)


def _host() -> Provider:
    from worldline.primitives.memory_host import HostProvider

    return HostProvider()


def _torch() -> Provider:
    from worldline.primitives.memory_torch import TorchProvider

    return TorchProvider()


def _loopback() -> Provider:
    from worldline.primitives.memory_loopback import LoopbackProvider

    return LoopbackProvider()


PROVIDERS: dict[str, Callable[[], Provider]] = {
    "torch": _torch,
    "loopback": _loopback,
    "host": _host,
}
"""Every provider, by name."""
