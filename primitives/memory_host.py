"""The ``host`` provider: POSIX shared memory, one process per rank, Triton's interpreter.

One segment holds the arenas of all ranks. Rank 0 makes it, all map it, and rank 0 removes its name
as soon as all have: from then on the segment dies with its last process, however that ends. While
the name stands rank 0 holds a lock on it, which ends with its process too; a name without a lock is
what a crash left behind, and the next world of the same user removes it.
"""

from __future__ import annotations

import errno
import fcntl
import importlib.util
import mmap
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from worldline.primitives.bootstrap import Rendezvous
from worldline.primitives.copies import Copies, HostCopies
from worldline.primitives.errors import ProviderError
from worldline.primitives.gpus import check_one_machine, machine
from worldline.primitives.interpreter import require_interpreter
from worldline.primitives.layout import DEAD, NOTICE, ArenaLayout

SHARED = "/dev/shm"
PREFIX = "worldline-"


def stale_segments(remove: bool = False) -> list[str]:
    """List segments of this user that a crash left behind.

    Parameters
    ----------
    remove : bool
        Remove them as well, each while its lock is held: a world that is just making one waits
        for the lock and then sees that its name is gone.
    """
    stale = []
    for name in os.listdir(SHARED) if os.path.isdir(SHARED) else []:
        path = os.path.join(SHARED, name)
        try:
            if name.startswith(PREFIX) and os.stat(path).st_uid == os.getuid():
                segment = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    fcntl.flock(segment, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if remove:
                        os.unlink(path)
                    stale.append(path)
                finally:
                    os.close(segment)
        except OSError:
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
        self.bases = tuple(start + place * stride for place in range(layout.world_size))
        self.notice = self.bases[rank] + NOTICE
        self._table = np.array([*self.bases, self.notice], dtype=np.int64)
        self.table = self._table.ctypes.data
        self.copies: Copies = HostCopies()

    def dead(self) -> bool:
        """Say whether the lane is dead: its word is the host's own memory."""
        return self.read(self._rank, DEAD, 1)[0] != 0

    def look(self) -> None:
        """Do nothing: :meth:`dead` reads the word."""

    def drain(self) -> None:
        """Return at once: a launch ends before its call returns."""

    def read(self, rank: int, offset: int, words: int) -> list[int]:
        """Read int64 words of a rank's arena."""
        first = rank * self._stride + offset
        view = self._bytes[first : first + 8 * words].view(np.int64)
        return [int(word) for word in view]

    def write(self, rank: int, offset: int, words: list[int]) -> None:
        """Write int64 words of a rank's arena, in order."""
        first = rank * self._stride + offset
        self._bytes[first : first + 8 * len(words)].view(np.int64)[:] = words

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

    def device(self) -> torch.device:
        """Return the CPU."""
        return torch.device("cpu")

    def largest_grid(self, threads: int, registers: int) -> int | None:
        """Return None: programs run one after another, each waiting for its own like only."""
        return None

    def load(self, kernel: Any, args: tuple[Any, ...], **constants: Any) -> None:
        """Do nothing: the interpreter compiles nothing."""

    def default_bytes(self, world_size: int) -> int:
        """Share 64 MiB, what a container's shared memory holds by default, among the ranks."""
        return min(8 << 20, (64 << 20) // world_size)

    def unavailable(self) -> str | None:
        """Say why this machine cannot use it, or None."""
        if not os.path.isdir(SHARED):
            return f"there is no {SHARED}; the host provider needs Linux with POSIX shared memory"
        if not os.access(SHARED, os.W_OK):
            return f"{SHARED} is not writable; mount it read-write"
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
            stale_segments(remove=True)
            try:
                name, segment = _make(total)
            except OSError as error:
                problem = _why_not(error, total, layout)
        mapping = None
        try:
            offers = rendezvous.gather("arena", [machine(), name, problem])
            check_one_machine([offer[0] for offer in offers], "host")
            if offers[0][2]:
                raise ProviderError(offers[0][2])
            try:
                if segment < 0:
                    segment = os.open(os.path.join(SHARED, offers[0][1]), os.O_RDWR | os.O_CLOEXEC)
                mapping = mmap.mmap(segment, total)
            except OSError as error:
                problem = (
                    f"rank {rendezvous.rank} cannot map rank 0's segment: "
                    f"{os.strerror(error.errno or 0)}; ranks in several containers need one "
                    f"{SHARED} (--ipc)"
                )
            for fault in rendezvous.gather("mapped", problem):
                if fault:
                    raise ProviderError(fault)
        except BaseException:
            if mapping is not None:
                mapping.close()
            raise
        finally:
            if rendezvous.rank == 0 and segment >= 0:
                os.unlink(os.path.join(SHARED, name))
            if segment >= 0:
                os.close(segment)
        assert mapping is not None
        return HostArena(mapping, rendezvous.rank, stride, layout)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Have Triton's interpreter for the launches of the body.

        Raises
        ------
        ProviderError
            When another thread of this process has it.
        """
        if not _interpreter.acquire(blocking=False):
            raise ProviderError(
                "another thread of this process runs a kernel: Triton's interpreter takes one at a "
                "time, so use one thread of each process for collectives"
            )
        try:
            yield
        finally:
            _interpreter.release()

    def launch(self, kernel: Any, grid: int, args: tuple[Any, ...], **constants: Any) -> None:
        """Interpret a kernel's programs one after another."""
        from triton.runtime.errors import InterpreterError

        try:
            # Infinities and NaN are legal input; numpy would warn of every one.
            with np.errstate(all="ignore"), _subnormals_kept():
                kernel[(grid,)](*args, **constants)
        except InterpreterError as error:
            # A signal handler's exception, say: callers expect it as it was raised.
            raise error.__cause__ or error from None


_interpreter = threading.Lock()


@contextmanager
def _subnormals_kept() -> Iterator[None]:
    """Keep subnormals for the body where torch.set_flush_denormal(True) has lost them."""
    flushing = np.float32(1e-40) * np.float32(1) == 0
    if flushing:
        torch.set_flush_denormal(False)
    try:
        yield
    finally:
        if flushing:
            torch.set_flush_denormal(True)


def _make(size: int) -> tuple[str, int]:
    """Make a segment and lock it; returns its name and descriptor."""
    while True:
        name = f"{PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
        path = os.path.join(SHARED, name)
        segment = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(segment, fcntl.LOCK_EX)
        if os.fstat(segment).st_nlink:
            break
        # Another world's clean-up came between the making and the lock.
        os.close(segment)
    try:
        # Without this, too small a /dev/shm shows as a bus error in the middle of a kernel.
        os.posix_fallocate(segment, 0, size)
    except OSError:
        os.unlink(path)
        os.close(segment)
        raise
    return name, segment


def _why_not(error: OSError, total: int, layout: ArenaLayout) -> str:
    what = f"{total} bytes of shared memory for {layout.world_size} ranks: {error.strerror}"
    if error.errno in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
        return (
            f"{what}; give the container more (--shm-size), or set arena_bytes to less than "
            f"{layout.size}"
        )
    return f"{what}; make {SHARED} writable and try again"
