"""The GPUs of a world: what each rank has, and which sets of them can share memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import torch

from worldline.primitives.errors import ProviderError

SLICES = (
    "slices (MIG) cannot reach each other's memory; use whole GPUs (nvidia-smi -mig 0), or several "
    "ranks of one process on a slice (provider='loopback')"
)
KINDS = (
    "GPUs of one world must be of one kind, since kernels and tables are chosen for it; leave the "
    "others out with CUDA_VISIBLE_DEVICES"
)
PEERS = (
    "cannot reach each other's memory (no peer access); use GPUs that `nvidia-smi topo -p2p r` "
    "shows as OK, by CUDA_VISIBLE_DEVICES; in a virtual machine peer access must be passed through"
)


@dataclass(frozen=True)
class Gpu:
    """One rank's GPU.

    Parameters
    ----------
    machine : str
        Host name and boot id.
    name : str
        The driver's name of it.
    uuid : str
        Its identity, also where processes number their GPUs differently.
    capability : str
        Compute capability, such as ``"9.0"``.
    multiprocessors : int
        How many it has: grids follow from it, and have to be equal on all ranks.
    """

    machine: str
    name: str
    uuid: str
    capability: str
    multiprocessors: int

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)

    @property
    def sliced(self) -> bool:
        """Whether it is a slice of a GPU (MIG) rather than a whole one."""
        return is_slice(self.name) or self.uuid.startswith("MIG")


def is_slice(name: str) -> bool:
    """Say whether a GPU's name is that of a slice (MIG)."""
    return "MIG" in name.split()


def own_gpu(device: torch.device) -> Gpu:
    """Describe this process's GPU."""
    properties = torch.cuda.get_device_properties(device)
    return Gpu(
        machine(),
        properties.name,
        str(properties.uuid),
        f"{properties.major}.{properties.minor}",
        properties.multi_processor_count,
    )


def machine() -> str:
    """Name the running machine: host name and boot id, the latter shared by its containers."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return f"{os.uname().nodename} {file.read().strip()}"


def check_one_machine(machines: list[str], provider: str) -> None:
    """Refuse ranks of several machines.

    Raises
    ------
    ProviderError
        Naming two ranks and their machines.
    """
    for rank, other in enumerate(machines):
        if other.split()[-1] != machines[0].split()[-1]:
            raise ProviderError(
                f"the {provider} provider joins ranks of one machine; rank 0 is on "
                f"{machines[0].split()[0]}, rank {rank} on {other.split()[0]}"
            )


def check_gpus(gpus: list[Gpu]) -> None:
    """Refuse GPUs that cannot make one world with a process each.

    Raises
    ------
    ProviderError
        Naming the ranks, what they have and the remedy.
    """
    check_one_machine([gpu.machine for gpu in gpus], "torch")
    owner: dict[str, int] = {}
    for rank, gpu in enumerate(gpus):
        if gpu.sliced and len(gpus) > 1:
            raise ProviderError(f"rank {rank} has {gpu.name}, a slice of a GPU: {SLICES}")
        if gpu.uuid in owner:
            raise ProviderError(
                f"ranks {owner[gpu.uuid]} and {rank} have the same GPU, {gpu.name}; call "
                f"torch.cuda.set_device(local_rank) before worldline.init(), or start no more "
                f"processes than there are GPUs"
            )
        owner[gpu.uuid] = rank
        first = gpus[0]
        if (gpu.name, gpu.capability) != (first.name, first.capability):
            raise ProviderError(
                f"rank 0 has {first.name} ({first.capability}), rank {rank} {gpu.name} "
                f"({gpu.capability}): {KINDS}"
            )
        if gpu.multiprocessors != first.multiprocessors:
            raise ProviderError(
                f"rank 0's {first.name} has {first.multiprocessors} multiprocessors, rank {rank}'s "
                f"{gpu.multiprocessors}: {KINDS}"
            )


def obstacles(gpus: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say what keeps GPUs of one machine from making one world, each with its remedy.

    Parameters
    ----------
    gpus : sequence of mapping
        The machine's GPUs as :func:`worldline.primitives.fingerprint.fingerprint` describes them.
    """
    if len(gpus) < 2:
        return []
    found = []
    slices = [i for i, gpu in enumerate(gpus) if is_slice(gpu["name"])]
    if slices:
        found.append(f"{_numbered(slices)}: {SLICES}")
    whole = [i for i in range(len(gpus)) if i not in slices]
    apart = [
        f"{one} and {other}"
        for one, other in combinations(whole, 2)
        if other not in gpus[one]["peers"] or one not in gpus[other]["peers"]
    ]
    if apart:
        found.append(f"GPUs {', '.join(apart)} {PEERS}")
    kinds: dict[tuple[str, str], list[int]] = {}
    for i in whole:
        kinds.setdefault((gpus[i]["name"], gpus[i]["capability"]), []).append(i)
    if len(kinds) > 1:
        listed = [
            f"{_numbered(places)} {name} ({capability})"
            for (name, capability), places in kinds.items()
        ]
        found.append(f"{', '.join(listed)}: {KINDS}")
    return found


def _numbered(places: Sequence[int]) -> str:
    plural = "s" if len(places) > 1 else ""
    return f"GPU{plural} {', '.join(map(str, places))}"
