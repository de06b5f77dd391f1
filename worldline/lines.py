"""Whether lines of 128 bytes arrive whole between a world's GPUs: what LL128 needs.

No specification promises it. NCCL relies on it between GPUs of one kind that NVLink joins; so do
we, where the litmus has found nothing against it. A machine without a verdict gets one here, of a
moment; ``worldline litmus`` gives a longer one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from worldline.kernels.litmus import Tally, add, hammer
from worldline.kernels.litmus_verdict import keep, kept, make, why_torn
from worldline.primitives.bootstrap import Rendezvous
from worldline.primitives.cuda_driver import call, driver
from worldline.primitives.fingerprint import hardware

if TYPE_CHECKING:
    from worldline.world import World

SECONDS = 0.1
"""Of the litmus at ``init``, for each kind of access."""


def torn(world: World, rendezvous: Rendezvous) -> str:
    """Say why a line may arrive in pieces; collective, equal on all ranks.

    Parameters
    ----------
    world : World
        Idle.
    rendezvous : Rendezvous
        Its ranks' meeting place.

    Returns
    -------
    str
        Empty where lines are known to arrive whole, or cross no link.
    """
    if world.provider != "torch" or world.size == 1:
        return ""
    own = str(torch.cuda.get_device_properties(world.device).uuid)
    uuids = rendezvous.gather("lines", own)
    offers = rendezvous.gather("lines", [_no_nvlink(uuids, world.rank), kept(hardware())])
    for rank, (reason, _) in enumerate(offers):
        if reason:
            return f"rank {rank}: {reason}"
    verdicts = [verdict for _, verdict in offers]
    if None in verdicts:
        verdicts = [_litmus(world, rendezvous)]
    return max((why_torn(verdict) for verdict in verdicts), key=len)


def _no_nvlink(uuids: list[str], rank: int) -> str:
    """Say what keeps NVLink from joining a rank's GPU and each other one."""
    places = {
        str(torch.cuda.get_device_properties(place).uuid): place
        for place in range(torch.cuda.device_count())
    }
    native = driver.CUdevice_P2PAttribute.CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED
    for peer, uuid in enumerate(uuids):
        if peer == rank:
            continue
        if uuid not in places:
            return f"this process cannot see rank {peer}'s GPU, nor whether NVLink leads there"
        # PCIe has no atomic operations on a peer's memory.
        pair = places[uuids[rank]], places[uuid]
        if not call(driver.cuDeviceGetP2PAttribute, native, *pair):
            return f"no NVLink leads to rank {peer}'s GPU"
    return ""


def _litmus(world: World, rendezvous: Rendezvous) -> dict[str, object]:
    """Run the litmus for a moment and keep the verdict."""
    seen: list[Tally] = []
    rendezvous.together("litmus", lambda: seen.extend(hammer(world, SECONDS)))
    told = rendezvous.gather("litmus", [vars(tally) for tally in seen])
    verdict = make(add(Tally(**tally) for rank in told for tally in rank), world.size, SECONDS)
    if world.rank == 0:
        keep(verdict)
    return verdict
