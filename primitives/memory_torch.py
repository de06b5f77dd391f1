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

_NO_MULTICAST = "TORCH_SYMM_MEM_DISABLE_MULTICAST"


class TorchProvider(GpuProvider):
    """Symmetric memory between the GPUs of one machine."""

    name = "torch"

    def allocate(self, rendezvous: Rendezvous, layout: ArenaLayout) -> DeviceArena:
        """Allocate and map every rank's arena; collective.

        Raises
        ------
        ProviderError
            When the ranks' GPUs cannot share memory; the message names them and the remedy.
        """
        device, rank = self.device(), rendezvous.rank
        offers = rendezvous.gather("gpus", own_gpu(device).as_dict())
        gpus = [Gpu(**offer) for offer in offers]
        check_gpus(gpus)
        problem = _unreachable(rank, gpus)
        bases: list[int] = []
        owners: list[Any] = []
        if not any(rendezvous.gather("peers", problem)):
            try:
                bases, owners = _allocate(device, rendezvous, layout)
            except RuntimeError as error:
                problem = _why_not(rank, error)
        for fault in rendezvous.gather("mapped", problem):
            if fault:
                raise ProviderError(fault)
        return DeviceArena(device, rank, bases, layout, owners, whole_device=True)


def _allocate(
    device: torch.device, rendezvous: Rendezvous, layout: ArenaLayout
) -> tuple[list[int], list[Any]]:
    """Return every arena's base, and what keeps them."""
    if rendezvous.size == 1:
        own = torch.zeros(layout.size, dtype=torch.uint8, device=device)
        return [own.data_ptr()], [own]
    from torch.distributed import _symmetric_memory as symmetric

    with _without_multicast(), _group(rendezvous) as group:
        memory = symmetric._SymmetricMemory
        own = memory.empty_strided_p2p((layout.size,), (1,), torch.uint8, device)
        own.zero_()
        torch.cuda.current_stream(device).synchronize()
        handle = memory.rendezvous(own, group)
    assert handle is not None
    offset = own.data_ptr() - handle.buffer_ptrs[rendezvous.rank]
    return [base + offset for base in handle.buffer_ptrs], [own, handle]


@contextmanager
def _without_multicast() -> Iterator[None]:
    """Keep torch from making a multicast object for the allocation."""
    before = os.environ.get(_NO_MULTICAST)
    os.environ[_NO_MULTICAST] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NO_MULTICAST]
        else:
            os.environ[_NO_MULTICAST] = before


@contextmanager
def _group(rendezvous: Rendezvous) -> Iterator[str]:
    """Name a process group for torch's meeting: torch looks ranks and store up by its name.

    It has no backend, so that a world needs no NCCL, and it is gone when the meeting is over.
    """
    name = dist.distributed_c10d.GroupName(rendezvous.prefix)
    store = dist.PrefixStore(f"{name}/symmetric", rendezvous.store)
    group = dist.ProcessGroup(store, rendezvous.rank, rendezvous.size)
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
