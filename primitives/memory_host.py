"""The ``host`` provider: POSIX shared memory, one process per rank, Triton's interpreter.

One segment holds the arenas of all ranks. Rank 0 makes it, all map it, and rank 0 removes its name
as soon as all have: from then on the segment dies with its last process, however that ends. A name
that a crash left behind in between carries its maker's process id and is removed by the next world
of the same user.
"""

from __future__ import annotations

import importlib.util
import mmap
import os
import re
import secrets
from typing import Any

import numpy as np

from worldline.primitives.bootstrap import Rendezvous
from worldline.primitives.errors import ProviderError
from worldline.primitives.interpreter import require_interpreter
from worldline.primitives.layout import ArenaLayout

SHARED = "/dev/shm"
_NAME = re.compile(r"worldline-(\d+)-[0-9a-f]+")


def stale_segments() -> list[str]:
    """List segments of this user whose maker is gone."""
    stale = []
    for name in os.listdir(SHARED) if os.path.isdir(SHARED) else []:
        match = _NAME.fullmatch(name)
        path = os.path.join(SHARED, name)
        if match and not os.path.exists(f"/proc/{match[1]}"):
            try:
                if os.stat(path).st_uid == os.getuid():
                    stale.append(path)
            except FileNotFoundError:
                continue
    return stale


class HostArena:
    """All ranks' arenas in one mapping; see :class:`worldline.primitives.memory.Arena`."""

    def __init__(self, mapping: mmap.mmap, rank: int, stride: int, layout: ArenaLayout) -> None:
        self.layout = layout
        self._mapping: mmap.mmap | None = mapping
        self._rank, self._stride = rank, stride
        self._bytes = np.frombuffer(mapping, dtype=np.uint8)
        start = self._bytes.ctypes.data
        self._bases = np.arange(layout.world_size, dtype=np.int64) * stride + start
        self.table = self._bases.ctypes.data

    def read(self, rank: int, offset: int, words: int) -> list[int]:
        """Read int64 words of a rank's arena."""
        first = rank * self._stride + offset
        view = self._bytes[first : first + 8 * words].view(np.int64)
        return [int(word) for word in view]

    def fill_words(self, offset: int, value: int, words: int) -> None:
        """Set int32 words of the own arena."""
        first = self._rank * self._stride + offset
        self._bytes[first : first + 4 * words].view(np.uint32)[:] = value & 0xFFFFFFFF

    def clear(self) -> None:
        """Zero the own arena."""
        first = self._rank * self._stride
        self._bytes[first : first + self._stride] = 0

    def close(self) -> None:
        """Unmap; a second call does nothing."""
        if self._mapping is not None:
            del self._bytes
            self._mapping.close()
            self._mapping = None


class HostProvider:
    """Symmetric memory between processes of one machine."""

    name = "host"
    device_type = "cpu"

    def default_bytes(self, world_size: int) -> int:
        """Share 64 MiB, what a container's shared memory holds by default, among the ranks."""
        return min(8 << 20, (64 << 20) // world_size)

    def unavailable(self) -> str | None:
        """Say why this machine cannot use it, or None."""
        if not os.path.isdir(SHARED):
            return f"there is no {SHARED}; the host provider needs Linux with POSIX shared memory"
        if importlib.util.find_spec("triton") is None:
            return "Triton is not installed; pip install triton"
        return None

    def prepare(self) -> None:
        """Choose the interpreter for this process."""
        require_interpreter()

    def allocate(self, rendezvous: Rendezvous, layout: ArenaLayout) -> HostArena:
        """Allocate and map one segment for all ranks; collective.

        Raises
        ------
        ProviderError
            When the ranks are on several machines or shared memory is too small.
        """
        stride = -(-layout.size // mmap.PAGESIZE) * mmap.PAGESIZE
        total = stride * layout.world_size
        name, problem, segment = "", "", -1
        if rendezvous.rank == 0:
            for path in stale_segments():
                os.unlink(path)
            name = f"worldline-{os.getpid()}-{secrets.token_hex(8)}"
            try:
                segment = _make(name, total)
            except OSError as error:
                problem = (
                    f"{total} bytes of shared memory for {layout.world_size} ranks: "
                    f"{os.strerror(error.errno or 0)}; give the container more (--shm-size), or "
                    f"set arena_bytes to less than {layout.size}"
                )
        try:
            offers = rendezvous.gather("arena", [_machine(), name, problem])
            _check_one_machine([offer[0] for offer in offers])
            if offers[0][2]:
                raise ProviderError(offers[0][2])
            if segment < 0:
                segment = os.open(os.path.join(SHARED, offers[0][1]), os.O_RDWR | os.O_CLOEXEC)
            mapping = mmap.mmap(segment, total)
            rendezvous.meet("mapped")
        finally:
            if segment >= 0:
                os.close(segment)
            if rendezvous.rank == 0 and name and not problem:
                os.unlink(os.path.join(SHARED, name))
        return HostArena(mapping, rendezvous.rank, stride, layout)

    def launch(self, kernel: Any, grid: int, args: tuple[Any, ...], **constants: Any) -> None:
        """Interpret a kernel's programs one after another."""
        # Infinities and NaN are legal input; numpy would warn of every one.
        with np.errstate(all="ignore"):
            kernel[(grid,)](*args, **constants)


def _make(name: str, size: int) -> int:
    path = os.path.join(SHARED, name)
    segment = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        # Without this, too small a /dev/shm shows as a bus error in the middle of a kernel.
        os.posix_fallocate(segment, 0, size)
    except OSError:
        os.close(segment)
        os.unlink(path)
        raise
    return segment


def _machine() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return f"{os.uname().nodename} {file.read().strip()}"


def _check_one_machine(machines: list[str]) -> None:
    for rank, machine in enumerate(machines):
        if machine.split()[-1] != machines[0].split()[-1]:
            raise ProviderError(
                f"the host provider joins ranks of one machine; rank 0 is on "
                f"{machines[0].split()[0]}, rank {rank} on {machine.split()[0]}"
            )
