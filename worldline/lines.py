"""Whether lines of 128 bytes arrive whole between a world's GPUs, and what is added to them.

LL128 needs the one, LL128-atomic both.

No specification promises it. NCCL relies on it between GPUs of one kind that NVLink joins; so do
we, where the litmus has found nothing against it. A machine without a verdict gets one here, of a
moment; ``worldline litmus`` gives a longer one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from worldline.kernels.litmus import KINDS, REDUCTIONS, STORES, Tally, hammer
from worldline.kernels.litmus_verdict import NO_REDUCTIONS, keep, kept, make, why_torn
from worldline.kernels.protocols import LL128_ATOMIC
from worldline.primitives.cuda_driver import call, driver
from worldline.primitives.errors import ProviderError
from worldline.primitives.fingerprint import hardware

if TYPE_CHECKING:
    from worldline.world import World

SECONDS = 0.1
"""Of the litmus at ``init``, for each kind of access."""


def torn(world: World) -> tuple[str, str]:
    """Say why a line, or what is added to one, may arrive in pieces; collective, agreed.

    Parameters
    ----------
    world : World
        Idle.

    Returns
    -------
    stores, reductions : str
        Empty where they are known to arrive whole, or cross no link.
    """
    if world.provider != "torch" or world.size == 1:
        able = torch.cuda.get_device_capability(world.device) >= LL128_ATOMIC.capability
        return "", "" if able else NO_REDUCTIONS
    gpus = world.rendezvous.gather("lines", uuid(world.device))
    offers = world.rendezvous.gather("lines", _look(gpus, world.rank))
    for rank, (reason, _) in enumerate(offers):
        if reason:
            return _both(f"rank {rank}: {reason}")
    known = [verdict for _, verdict in offers if verdict and set(verdict["gpus"]) >= set(gpus)]
    if len(known) < world.size and not any(map(why_torn, known)):
        try:
            known.append(litmus(world, SECONDS))
        except ProviderError as error:  # The same on every rank.
            return _both(f"the litmus failed: {error}")
        if not why_torn(known[-1]):
            keep(known[-1])
    stores, reductions = (
        next(filter(None, (why_torn(verdict, kind) for verdict in known)), "") for kind in KINDS
    )
    return stores, reductions


def _both(reason: str) -> tuple[str, str]:
    return reason, reason


def litmus(world: World, seconds: float) -> dict[str, Any]:
    """Run the litmus and return its verdict; collective, equal on all ranks."""
    seen = hammer(world, seconds, functools.partial(world.rendezvous.together, "litmus"))
    told = world.rendezvous.gather("litmus", [uuid(world.device), [vars(tally) for tally in seen]])
    tallies = [[Tally(**tally) for tally in of_rank] for _, of_rank in told]
    return make(tallies, [gpu for gpu, _ in told], seconds)


def foretell(ranks: int) -> tuple[str, str]:
    """Say as :func:`torn` what may arrive in pieces in a world of this machine's first GPUs."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if ranks > count:
        return _both(f"this machine has {count} GPUs, and nothing is known of others' links")
    gpus = [uuid(torch.device("cuda", place)) for place in range(ranks)]
    apart = filter(None, (no_nvlink(gpus, rank) for rank in range(ranks)))
    if reason := next(apart, ""):
        return _both(reason)
    known = kept(hardware())
    return why_torn(known, STORES), why_torn(known, REDUCTIONS)


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
