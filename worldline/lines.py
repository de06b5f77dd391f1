"""Whether lines of 128 bytes arrive whole between a world's GPUs: what LL128 needs.

No specification promises it. NCCL relies on it between GPUs of one kind that NVLink joins; so do
we, where the litmus has found nothing against it. A machine without a verdict gets one here, of a
moment; ``worldline litmus`` gives a longer one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from worldline.kernels.litmus import Tally, hammer
from worldline.kernels.litmus_verdict import keep, kept, make, why_torn
from worldline.primitives.cuda_driver import call, driver
from worldline.primitives.errors import ProviderError
from worldline.primitives.fingerprint import hardware

if TYPE_CHECKING:
    from worldline.world import World

SECONDS = 0.1
"""Of the litmus at ``init``, for each kind of access."""


def torn(world: World) -> str:
    """Say why a line may arrive in pieces; collective, equal on all ranks.

    Parameters
    ----------
    world : World
        Idle.

    Returns
    -------
    str
        Empty where lines are known to arrive whole, or cross no link.
    """
    if world.provider != "torch" or world.size == 1:
        return ""
    gpus = world.rendezvous.gather("lines", uuid(world.device))
    offers = world.rendezvous.gather("lines", _look(gpus, world.rank))
    for rank, (reason, _) in enumerate(offers):
        if reason:
            return f"rank {rank}: {reason}"
    known = [verdict for _, verdict in offers if verdict and set(verdict["gpus"]) >= set(gpus)]
    if len(known) < world.size and not any(map(why_torn, known)):
        try:
            known.append(litmus(world, SECONDS))
        except ProviderError as error:  # The same on every rank.
            return f"the litmus failed: {error}"
        if not why_torn(known[-1]):
            keep(known[-1])
    return next(filter(None, map(why_torn, known)), "")


def litmus(world: World, seconds: float) -> dict[str, Any]:
    """Run the litmus and return its verdict; collective, equal on all ranks."""
    seen = hammer(world, seconds, functools.partial(world.rendezvous.together, "litmus"))
    told = world.rendezvous.gather("litmus", [uuid(world.device), [vars(tally) for tally in seen]])
    tallies = [[Tally(**tally) for tally in of_rank] for _, of_rank in told]
    return make(tallies, [gpu for gpu, _ in told], seconds)


def foretell(ranks: int) -> str:
    """Say why a line may arrive in pieces in a world of this machine's first GPUs."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if ranks > count:
        return f"this machine has {count} GPUs, and nothing is known of others' links"
    gpus = [uuid(torch.device("cuda", place)) for place in range(ranks)]
    apart = filter(None, (no_nvlink(gpus, rank) for rank in range(ranks)))
    return next(apart, "") or why_torn(kept(hardware()))


def uuid(device: torch.device) -> str:
    """Name a GPU."""
    return str(torch.cuda.get_device_properties(device).uuid)


def _look(gpus: Sequence[str], rank: int) -> tuple[str, dict[str, Any] | None]:
    """Return a rank's reason against lines, and the verdict that it has."""
    try:
        return no_nvlink(gpus, rank), kept(hardware())
    except Exception as error:  # The others wait for an answer.
        return f"{type(error).__name__}: {error}", None


def no_nvlink(gpus: Sequence[str], rank: int) -> str:
    """Say what keeps NVLink from joining a rank's GPU and each other one."""
    places = {uuid(torch.device("cuda", i)): i for i in range(torch.cuda.device_count())}
    native = driver.CUdevice_P2PAttribute.CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED
    for peer, gpu in enumerate(gpus):
        if peer == rank:
            continue
        if gpu not in places:
            return f"this process cannot see rank {peer}'s GPU, nor whether NVLink leads there"
        # PCIe has no atomic operations on a peer's memory.
        if not call(driver.cuDeviceGetP2PAttribute, native, places[gpus[rank]], places[gpu]):
            return f"no NVLink leads to rank {peer}'s GPU"
    return ""
