"""The harness's own process group: how ranks agree on times and verdicts, beside what they time."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


class Group:
    """A group of all ranks of a world, gloo for the harness and NCCL for the peers on GPUs.

    Parameters
    ----------
    world : World
        Whose ranks.
    """

    def __init__(self, world: Any) -> None:
        self._world = world
        self.device = world.device

    def __enter__(self) -> Group:
        store = dist.PrefixStore("bench", self._world.store)
        dist.init_process_group(
            "gloo" if self.device.type == "cpu" else "cpu:gloo,cuda:nccl",
            store=store,
            rank=self._world.rank,
            world_size=self._world.size,
            device_id=None if self.device.type == "cpu" else self.device,
        )
        return self

    def __exit__(self, *error: object) -> None:
        dist.destroy_process_group()

    def barrier(self) -> None:
        """Meet on the host."""
        self.slowest(0.0)

    def slowest(self, seconds: float) -> float:
        """Return the largest of the ranks' values."""
        value = torch.tensor(seconds, dtype=torch.float64)
        dist.all_reduce(value, op=dist.ReduceOp.MAX)
        return value.item()

    def all_true(self, verdict: bool) -> bool:
        """Return whether every rank says so."""
        return self.slowest(float(not verdict)) == 0.0

    def first_reason(self, reason: str | None) -> str | None:
        """Return the first rank's reason that there is, the same on every rank."""
        reasons: list[str | None] = [None] * self._world.size
        dist.all_gather_object(reasons, reason)
        return next((each for each in reasons if each is not None), None)
