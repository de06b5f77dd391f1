"""The ``loopback`` provider: all ranks in one process on one GPU, a stream and a thread to each.

Kernels of different ranks wait for each other on the same GPU, so all their blocks must be resident
together, with the successors that dependent launch starts early: grids are kept small enough for
that. Each rank's stream needs a hardware queue of its own, which the process asks for before it
first uses CUDA.

Ranks share what a GPU has once. Copies to and from the host wait in one queue, where one that waits
for its rank's kernel holds up every other rank's: synchronise the rank's stream first. And
``torch.cuda.synchronize`` waits for all ranks' kernels, which may wait for this one's next:
``World.synchronize`` waits for the rank's own stream.
"""

from __future__ import annotations

import os
import secrets

import torch

from worldline.primitives.bootstrap import Rendezvous
from worldline.primitives.errors import ProviderError
from worldline.primitives.layout import ArenaLayout
from worldline.primitives.memory_gpu import DeviceArena, GpuProvider

ENVIRONMENT = {"CUDA_DEVICE_MAX_CONNECTIONS": "32", "CUDA_MODULE_LOADING": "EAGER"}
"""What a process that is to run several ranks needs before it first uses CUDA: a queue for each
rank, and torch's own kernels loaded before another rank's kernel waits for this one."""

_arenas: dict[str, torch.Tensor] = {}


class LoopbackProvider(GpuProvider):
    """Symmetric memory of n ranks on one GPU; for tests of any world size on a single GPU."""

    name = "loopback"

    def __init__(self) -> None:
        self._sharers = 0

    def allocate(self, rendezvous: Rendezvous, layout: ArenaLayout) -> DeviceArena:
        """Allocate the own arena and find the others'; collective.

        Raises
        ------
        ProviderError
            When ranks are in several processes or on several GPUs, or lack hardware queues.
        """
        device, key = self.device(), secrets.token_hex(8)
        own = torch.zeros(layout.size, dtype=torch.uint8, device=device)
        torch.cuda.current_stream(device).synchronize()
        _arenas[key] = own
        try:
            offers = rendezvous.gather("arena", [os.getpid(), str(device), key])
            _check_together(offers)
            # Each rank keeps all arenas: a peer's last kernel may still write after one has closed.
            arenas = [_arenas[other] for *_, other in offers]
            rendezvous.meet("mapped")
        finally:
            del _arenas[key]
        self._sharers += rendezvous.size
        bases = [arena.data_ptr() for arena in arenas]
        return DeviceArena(device, rendezvous.rank, bases, layout, arenas, whole_device=False)

    def largest_grid(self, threads: int, registers: int) -> int:
        """Return how many blocks of one launch can be resident with those of all ranks and lanes.

        Ranks and lanes of this world alone: of two worlds on one GPU, one must be idle while the
        other works.
        """
        return self.resident(self._sharers, threads, registers)


def _check_together(offers: list[list[str]]) -> None:
    for rank, (pid, device, _) in enumerate(offers):
        if [pid, device] != offers[0][:2]:
            raise ProviderError(
                f"the loopback provider joins ranks of one process on one GPU; rank 0 is process "
                f"{offers[0][0]} on {offers[0][1]}, rank {rank} process {pid} on {device}; use "
                f"worldline.spawn(provider='loopback'), or provider='torch' with a GPU to a process"
            )
    name = "CUDA_DEVICE_MAX_CONNECTIONS"
    if len(offers) > 1 and os.environ.get(name) != ENVIRONMENT[name]:
        raise ProviderError(
            f"{name}={os.environ.get(name)!r}: ranks of one process need {ENVIRONMENT[name]} in "
            f"the environment before the process first uses CUDA"
        )
