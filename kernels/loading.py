"""Kernels are loaded before they are waited for.

Loading a module can wait for kernels that run, and those may wait for a peer that is loading: so a
kernel is loaded at ``init``, or behind a meeting of all ranks with their lanes drained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from worldline.kernels.launch import Plan
from worldline.primitives.bootstrap import Rendezvous
from worldline.primitives.errors import UnsupportedError
from worldline.primitives.lane import Lane

if TYPE_CHECKING:
    from worldline.kernels.cuda_launch import CudaKernels


class Loader:
    """What one rank of a world has loaded on its GPU; on the CPU nothing needs to be.

    Parameters
    ----------
    rendezvous : Rendezvous
        The ranks' meeting place.
    lanes : sequence of Lane
        The world's lanes.
    dtypes : sequence of torch.dtype
        What the world declares: of these sums are loaded at once; equal on all ranks.
    """

    def __init__(
        self, rendezvous: Rendezvous, lanes: Sequence[Lane], dtypes: Sequence[torch.dtype]
    ) -> None:
        self._rendezvous, self._lanes = rendezvous, lanes
        self._loaded: set[tuple[Any, ...]] = set()
        self.cuda: CudaKernels | None = None
        if lanes[0].provider.device_type == "cuda":
            self._rendezvous.together("init", lambda: self._load_declared(dtypes))

    def _load_declared(self, dtypes: Sequence[torch.dtype]) -> None:
        from worldline.kernels.cuda_launch import CudaKernels

        lane = self._lanes[0]
        self.cuda = CudaKernels(lane.rank, lane.size, lane.provider.device(), dtypes)
        self._loaded.update(("cuda", dtype, "sum") for dtype in dtypes)

    def ensure(self, variant: tuple[Any, ...], make: Callable[[], Plan]) -> Plan:
        """Make a plan whose kernels are loaded; collective where they are not yet.

        Parameters
        ----------
        variant : tuple
            What has to be loaded, as :meth:`Algorithm.variant` names it.
        make : callable
            Makes the plan.

        Raises
        ------
        UnsupportedError
            When they are not and the current stream is being captured.
        """
        if self.cuda is None or variant in self._loaded:
            return make()
        if torch.cuda.is_current_stream_capturing():
            names = " ".join(str(part) for part in variant)
            raise UnsupportedError(
                f"the kernels of {names} are not loaded, and loading is no part of a CUDA graph: "
                f"make the same call once before the capture"
            )
        for lane in self._lanes:
            lane.arena.drain()
            # A rank that knows the lane for dead has raised, and does not come to the meeting.
            lane.look()
        self._rendezvous.meet("load")
        made: list[Plan] = []

        def load() -> None:
            if variant[0] == "cuda" and self.cuda is not None:
                self.cuda.add([variant[1]], variant[2])
            made.append(make())
            made[0].load()

        self._rendezvous.together("loaded", load)
        self._loaded.add(variant)
        return made[0]
