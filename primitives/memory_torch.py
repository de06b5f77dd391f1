"""The ``torch`` provider: torch's symmetric memory, one process to a GPU.

The arena is one allocation of torch's, mapped into every rank. Nothing else of torch's symmetric
memory is used: not its signal pads, not its barriers, and never multicast.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from worldline.primitives.bootstrap import Rendezvous
from worldline.primitives.errors import ProviderError
from worldline.primitives.gpus import PEERS, Gpu, check_gpus, own_gpu
from worldline.primitives.layout import ArenaLayout
from worldline.primitives.memory_gpu import DeviceArena, GpuProvider
from worldline.primitives.torch_exchange import ExchangeStore

_SETTINGS = {
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    # Torch numbers devices as each process sees them; check_gpus has compared what they are.
    "TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES": "1",
}


class TorchProvider(GpuProvider):
    """Symmetric memory between the GPUs of one machine."""

    name = "torch"

    def __init__(self) -> None:
        self._lanes = 0

    def largest_grid(self, threads: int, registers: int) -> int | None:
        """Return None for one lane: blocks wait for their like, in the same order everywhere.

        Lanes have no order among them: with several, one could fill this GPU and another the
        peer's, each waiting for blocks that find no room. All are kept resident together. Lanes
        of this world alone: calls of two worlds are to follow each other.
        """
        return self.resident(self._lanes, threads, registers) if self._lanes > 1 else None

    def allocate(self, rendezvous: Rendezvous, layout: ArenaLayout) -> DeviceArena:
        """Allocate and map every rank's arena; collective.

        Raises
        ------
        ProviderError
            When the ranks' GPUs cannot share memory; the message names them and the remedy.
        """
        device, rank = self.device(), rendezvous.rank
        self._lanes += 1
        offers = rendezvous.gather("gpus", own_gpu(device).as_dict())
        gpus = [Gpu(**offer) for offer in offers]
        check_gpus(gpus)
        problem = _unreachable(rank, gpus)
        bases: list[int] = []
        owners: list[Any] = []
        corner = dist.PrefixStore(f"{rendezvous.prefix}/symmetric", rendezvous.store)
        exchange = ExchangeStore(corner, rendezvous.timeout)
        if not any(rendezvous.gather("peers", problem)):
            try:
                bases, owners = _allocate(device, rendezvous, exchange, layout)
            except ProviderError as error:
                problem = str(error)
            except RuntimeError as error:
                problem = _why_not(rank, error)
        faults = rendezvous.gather("mapped", problem)
        exchange.forget()
        for fault in faults:
            if fault:
                raise ProviderError(fault)
        return DeviceArena(device, rank, bases, layout, owners, whole_device=True)


def _allocate(
    device: torch.device, rendezvous: Rendezvous, exchange: ExchangeStore, layout: ArenaLayout
) -> tuple[list[int], list[Any]]:
    """Return every arena's base, and what keeps them."""
    if rendezvous.size == 1:
        alone = torch.zeros(layout.size, dtype=torch.uint8, device=device)
        return [alone.data_ptr()], [alone]
    from torch.distributed import _symmetric_memory as symmetric

    memory = symmetric._SymmetricMemory
    own: torch.Tensor | None = None
    problem = ""
    with _torch_settings(), _group(rendezvous, exchange) as group:
        try:
            backend = memory.get_backend(device)
            if backend not in (None, "CUDA"):
                raise RuntimeError(
                    f"torch's symmetric memory is set to {backend}, Worldline needs CUDA: unset "
                    f"TORCH_SYMMMEM, or do not call set_backend"
                )
            own = memory.empty_strided_p2p((layout.size,), (1,), torch.uint8, device)
            own.zero_()
            torch.cuda.current_stream(device).synchronize()
        except RuntimeError as error:
            problem = f"rank {rendezvous.rank}: {str(error).splitlines()[0]}"
        # Whoever has no memory does not come to torch's meeting, which would wait for it.
        for fault in rendezvous.gather("allocated", problem):
            if fault:
                raise ProviderError(fault)
        assert own is not None
        handle = memory.rendezvous(own, group)
    assert handle is not None
    offset = own.data_ptr() - handle.buffer_ptrs[rendezvous.rank]
    return [base + offset for base in handle.buffer_ptrs], [own, handle]


@contextmanager
def _torch_settings() -> Iterator[None]:
    """Keep torch from making a multicast object, and from comparing numbers of devices."""
    before = {name: os.environ.get(name) for name in _SETTINGS}
    os.environ.update(_SETTINGS)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _group(rendezvous: Rendezvous, exchange: dist.Store) -> Iterator[str]:
    """Name a process group for torch's meeting: torch looks ranks and store up by its name.

    It has no backend, so that a world needs no NCCL, and it is gone when the meeting is over.
    """
    name = dist.distributed_c10d.GroupName(rendezvous.prefix)
    group = dist.ProcessGroup(exchange, rendezvous.rank, rendezvous.size)
    group._set_group_name(name)
    c10d._register_process_group(name, group)
    try:
        yield name
    finally:
        c10d._unregister_process_group(name)


def _unreachable(rank: int, gpus: list[Gpu]) -> str:
    """Say which peer's memory this rank's GPU cannot reach, as far as this process sees both."""
    here = {
        str(torch.cuda.get_device_properties(index).uuid): index
        for index in range(torch.cuda.device_count())
    }
    own = here[gpus[rank].uuid]
    for peer, gpu in enumerate(gpus):
        other = here.get(gpu.uuid)
        if other not in (None, own) and not torch.cuda.can_device_access_peer(own, other):
            return f"ranks {rank} and {peer}: their GPUs {PEERS}"
    return ""


def _why_not(rank: int, error: RuntimeError) -> str:
    cause = str(error).splitlines()[0]
    return (
        f"rank {rank} cannot share GPU memory with its peers: {cause}; in containers, ranks of "
        "one world need one process-id namespace and the right to pass file descriptors "
        "(one container, or --pid=host and --ipc=host; --cap-add=SYS_PTRACE)"
    )
