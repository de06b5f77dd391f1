"""Other libraries' all-reduces, to measure beside ours.

A peer is made by ``make(rank, world, device, group, max_bytes)``, which returns an object with
``all_reduce(x)`` and ``close()``. Peers that torch does not bring are named by a module that has
such a function: ``worldline bench all-reduce --peer MODULE``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist

Make = Callable[[int, int, torch.device, dist.ProcessGroup, int], "Peer"]


class Peer(Protocol):
    """A peer on one rank."""

    def all_reduce(self, x: torch.Tensor) -> object:
        """Sum over all ranks, wherever the peer puts the result."""
        ...

    def close(self) -> None:
        """Give back what was made."""
        ...


class Default:
    """``torch.distributed.all_reduce`` in place, on a tensor of the peer's own."""

    def __init__(self, device: torch.device, max_bytes: int) -> None:
        self._room = torch.zeros(max_bytes, dtype=torch.uint8, device=device)

    def all_reduce(self, x: torch.Tensor) -> object:
        """Sum in place."""
        y = self._room[: x.numel() * x.element_size()].view(x.dtype)
        dist.all_reduce(y)
        return y

    def close(self) -> None:
        """Drop the tensor."""
        del self._room


class Window(Default):
    """The same on memory that NCCL has registered as a symmetric window."""

    def __init__(self, device: torch.device, group: dist.ProcessGroup, max_bytes: int) -> None:
        backend: Any = group._get_backend(device)
        self._backend = backend
        self._pool = torch.cuda.MemPool(backend.mem_allocator)
        with torch.cuda.use_mem_pool(self._pool):
            super().__init__(device, max_bytes)
        backend.register_mem_pool(self._pool, symm=True)

    def close(self) -> None:
        """Take the window back."""
        self._backend.deregister_mem_pool(self._pool)
        super().close()


class Symmetric:
    """PyTorch's symmetric-memory kernels, whose input lies in symmetric memory already."""

    def __init__(
        self, shots: int, device: torch.device, group: dist.ProcessGroup, max_bytes: int
    ) -> None:
        from torch.distributed import _symmetric_memory as symmetric

        self._shots, self._name = shots, group.group_name
        memory = symmetric._SymmetricMemory
        self._room = memory.empty_strided_p2p((max_bytes,), (1,), torch.uint8, device)
        self._room.zero_()
        symmetric.rendezvous(self._room, self._name)

    def all_reduce(self, x: torch.Tensor) -> object:
        """Sum by the one-shot or the two-shot kernel."""
        y = self._room[: x.numel() * x.element_size()].view(x.dtype)
        if self._shots == 1:
            return torch.ops.symm_mem.one_shot_all_reduce(y, "sum", self._name)
        return torch.ops.symm_mem.two_shot_all_reduce_(y, "sum", self._name)

    def close(self) -> None:
        """Free the memory."""
        del self._room


def _default(
    rank: int, world: int, device: torch.device, group: dist.ProcessGroup, max_bytes: int
) -> Peer:
    return Default(device, max_bytes)


def _module(name: str) -> Make:
    def make(
        rank: int, world: int, device: torch.device, group: dist.ProcessGroup, max_bytes: int
    ) -> Peer:
        made: Peer = importlib.import_module(name).make(rank, world, device, group, max_bytes)
        return made

    return make


def peers(device: torch.device, modules: Sequence[str]) -> dict[str, Make]:
    """List the peers for a kind of device, by name."""
    named = {name: _module(name) for name in modules}
    if device.type == "cpu":
        return {"torch gloo": _default, **named}
    return {
        "NCCL": _default,
        "NCCL symmetric window": lambda rank, world, device, group, size: Window(
            device, group, size
        ),
        "PyTorch one-shot": lambda rank, world, device, group, size: Symmetric(
            1, device, group, size
        ),
        "PyTorch two-shot": lambda rank, world, device, group, size: Symmetric(
            2, device, group, size
        ),
        **named,
    }
