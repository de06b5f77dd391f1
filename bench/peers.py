"""Other libraries' collectives, to measure beside ours.

A peer is made by ``make(rank, world, device, group, max_bytes)``, which returns an object with
``all_reduce(x)``, ``all_gather(x)`` or both, and ``close()``. Peers that torch does not bring are
named by a module that has such a function: ``worldline bench all-reduce --peer MODULE``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist

_OPS = {
    "sum": dist.ReduceOp.SUM,
    "avg": dist.ReduceOp.AVG,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
    "prod": dist.ReduceOp.PRODUCT,
}
Make = Callable[[int, int, torch.device, dist.ProcessGroup, int], "Peer"]


class Peer(Protocol):
    """A peer on one rank; its collectives put their results wherever they do."""

    def close(self) -> None:
        """Give back what was made."""
        ...


class Default:
    """``torch.distributed.all_reduce`` in place, on a tensor of the peer's own."""

    def __init__(self, device: torch.device, max_bytes: int, op: str) -> None:
        self._room = torch.zeros(max_bytes, dtype=torch.uint8, device=device)
        self._op = _OPS[op]

    def all_reduce(self, x: torch.Tensor) -> object:
        """Reduce in place."""
        y = self._room[: x.numel() * x.element_size()].view(x.dtype)
        dist.all_reduce(y, self._op)
        return y

    def close(self) -> None:
        """Drop the tensor."""
        del self._room


class Gather:
    """``torch.distributed.all_gather_into_tensor`` between tensors of the peer's own."""

    def __init__(self, world: int, device: torch.device, max_bytes: int) -> None:
        self._world = world
        self._room = torch.zeros(max_bytes, dtype=torch.uint8, device=device)
        self._all = torch.zeros(world * max_bytes, dtype=torch.uint8, device=device)

    def all_gather(self, x: torch.Tensor) -> object:
        """Gather out of place."""
        nbytes = x.numel() * x.element_size()
        out = self._all[: self._world * nbytes]
        # Torch 2.13 has renamed it.
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        gather(out, self._room[:nbytes])
        return out

    def close(self) -> None:
        """Drop the tensors."""
        del self._room, self._all


class Window:
    """A peer whose tensors lie in memory that NCCL has registered as a symmetric window."""

    def __init__(
        self, device: torch.device, group: dist.ProcessGroup, make: Callable[[], Default | Gather]
    ) -> None:
        backend: Any = group._get_backend(device)
        self._backend = backend
        self._pool = torch.cuda.MemPool(backend.mem_allocator)
        with torch.cuda.use_mem_pool(self._pool):
            self._peer: Any = make()
        backend.register_mem_pool(self._pool, symm=True)

    def __getattr__(self, collective: str) -> Any:
        return getattr(self._peer, collective)

    def close(self) -> None:
        """Take the window back."""
        self._backend.deregister_mem_pool(self._pool)
        self._peer.close()


class Symmetric:
    """PyTorch's symmetric-memory collectives, whose input lies in symmetric memory already."""

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

    def all_gather(self, x: torch.Tensor) -> object:
        """Gather by copies between barriers, into a tensor of torch's making."""
        y = self._room[: x.numel() * x.element_size()].view(x.dtype)
        out = torch.ops.symm_mem._low_contention_all_gather(y, self._name)
        return torch.ops._c10d_functional.wait_tensor(out)

    def close(self) -> None:
        """Free the memory."""
        del self._room


def _module(name: str) -> Make:
    def make(
        rank: int, world: int, device: torch.device, group: dist.ProcessGroup, max_bytes: int
    ) -> Peer:
        made: Peer = importlib.import_module(name).make(rank, world, device, group, max_bytes)
        return made

    return make


def peers(
    collective: str, device: torch.device, modules: Sequence[str], op: str
) -> dict[str, Make]:
    """List a collective's peers for a kind of device, by name: what sums alone, for sums alone."""
    plain = op in ("sum", "")
    named = {name: _module(name) for name in modules if plain}

    def torchs(world: int, on: torch.device, size: int) -> Default | Gather:
        return Gather(world, on, size) if collective == "all_gather" else Default(on, size, op)

    def default(
        rank: int, world: int, on: torch.device, group: dist.ProcessGroup, size: int
    ) -> Peer:
        return torchs(world, on, size)

    def window(
        rank: int, world: int, on: torch.device, group: dist.ProcessGroup, size: int
    ) -> Peer:
        return Window(on, group, lambda: torchs(world, on, size))

    def symmetric(shots: int) -> Make:
        return lambda rank, world, on, group, size: Symmetric(shots, on, group, size)

    if device.type == "cpu":
        return {"torch gloo": default, **named}
    forms = {"PyTorch one-shot": 1, "PyTorch two-shot": 2}
    if collective == "all_gather":
        forms = {"PyTorch low-contention": 1}
    return {
        "NCCL": default,
        "NCCL symmetric window": window,
        **{name: symmetric(shots) for name, shots in forms.items() if plain},
        **named,
    }
