"""What a seed runs: a world, a stream of all-reduces, and the checks on what came out.

The calls go through the real launcher (chunks, widths, grids) into the real kernels.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from tests.simulator.interpreter import Machine, launcher
from tests.simulator.memory import Memory, ProtocolError
from tests.simulator.scheduler import Launch as Kernel
from tests.simulator.scheduler import Scheduler
from worldline.kernels import reference
from worldline.kernels.chunks import chunks
from worldline.kernels.launch import BarrierPlan, plan
from worldline.kernels.protocols import SENTINEL
from worldline.kernels.registry import Algorithm, Launch, Request, algorithm
from worldline.primitives import layout as places
from worldline.primitives.layout import ArenaLayout

FOREVER_NS = 1 << 60
GARBAGE = 0x7F7F7F7F


@dataclass(frozen=True)
class Call:
    """One collective call, equal on all ranks; ``algorithm`` is a registry name or "barrier"."""

    algorithm: str
    count: int = 0
    grid: int = 1
    block: int = 8
    dtype: torch.dtype = torch.float32
    offset: int = 0
    in_place: bool = False


@dataclass(frozen=True)
class Scenario:
    """A world and its calls.

    Parameters
    ----------
    world : int
        Ranks.
    calls : tuple of Call
        In order.
    epoch : int
        The epoch before the first call's.
    channels : int
        Blocks that have a channel: they make the size of the arena.
    stale_slots : bool
        Whether all slots start as an LL call of the last round would have left them far out:
        garbage under the flags 2 and 3, the first two after the wrap.
    """

    world: int
    calls: tuple[Call, ...]
    epoch: int = 0
    channels: int = 1
    stale_slots: bool = False


@dataclass
class _Lane:
    """One rank's lane and provider, as far as the launcher looks at them: it records kernels."""

    rank: int
    size: int
    layout: ArenaLayout
    table: int
    limit_ns: int = FOREVER_NS
    stream: list[Kernel] = field(default_factory=list)

    @property
    def arena(self) -> _Lane:
        return self

    @property
    def provider(self) -> _Lane:
        return self

    def largest_grid(self, threads: int, registers: int) -> None:
        return None

    def launch(self, kernel: Any, grid: int, args: tuple[Any, ...], **constants: Any) -> None:
        name = kernel.fn.__name__
        self.stream.append(Kernel(name, grid, launcher(kernel, args, constants)))


class Simulation:
    """One scenario under one seed.

    Parameters
    ----------
    scenario : Scenario
        What runs.
    seed : str
        What all random choices derive from.
    """

    def __init__(self, scenario: Scenario, seed: str) -> None:
        self.scenario, self.rng = scenario, random.Random(seed)
        size = places.LL + 8 * places.CHANNEL * scenario.channels
        self._layout = ArenaLayout(scenario.world, size)
        assert self._layout.channels == scenario.channels
        self._stride = self._layout.size
        self._arenas = np.zeros(scenario.world * self._stride + places.PAGE, np.uint8)
        skip = -self._arenas.ctypes.data % places.PAGE
        self._arenas = self._arenas[skip : skip + scenario.world * self._stride]
        self._by_rank = self._arenas.reshape(scenario.world, self._stride)
        self._fill_arenas()
        start = self._arenas.ctypes.data
        # Behind the bases the address of the notice: any word of a page that the simulation leaves.
        self._table = np.arange(scenario.world + 1, dtype=np.int64) * self._stride + start
        self._table[-1] = start + places.NOTICE
        self._data = torch.Generator().manual_seed(self.rng.getrandbits(32))
        self._tensors: list[torch.Tensor] = []
        self._passes = np.zeros(places.MAX_BLOCKS, np.uint32)
        self.steps = 0

    def _fill_arenas(self) -> None:
        epochs = self._by_rank[:, places.EPOCHS : places.ROUNDS].view(np.uint32)
        epochs[:] = self.scenario.epoch & 0xFFFFFFFF
        # The sentinel's count has 30 bits, and wraps with the epochs here.
        count = self.scenario.epoch << 2 & 0xFFFFFFFF
        self._by_rank[:, places.STAGES : places.FLAGS].view(np.uint32)[:] = count
        self._by_rank[:, places.TOKENS : places.LL].view(np.uint32)[:] = count
        self._by_rank[:, self._layout.sentinel : self._layout.staged] = 0xFF
        if self.scenario.stale_slots:
            slots = self._by_rank[:, places.LL : self._layout.sentinel].view(np.uint32)
            halves = slots.reshape(self.scenario.world, 2, -1, 2)
            halves[..., 0] = GARBAGE
            halves[:, 0, :, 1], halves[:, 1, :, 1] = 2, 3

    def run(self) -> None:
        """Run and check.

        Raises
        ------
        ProtocolError
            For a hang, a wrong result, a race inside a block or counters out of step.
        """
        lanes = [
            _Lane(rank, self.scenario.world, self._layout, self._table.ctypes.data)
            for rank in range(self.scenario.world)
        ]
        checks = [self._record(lanes, call) for call in self.scenario.calls]
        freshness = self.rng.choice((0.3, 0.7, 1.0))
        memory = Memory(self._arenas, self._stride, self.rng, freshness)
        scheduler = Scheduler(memory, self.rng, [lane.stream for lane in lanes])
        try:
            Machine(self._arenas, self._stride, memory, scheduler).run()
        finally:
            self.steps = scheduler.steps
        for number, check in enumerate(checks):
            check(number)
        self._check_counters()

    def _record(self, lanes: list[_Lane], call: Call) -> Any:
        if call.algorithm == "barrier":
            for lane in lanes:
                BarrierPlan(lane).run()  # type: ignore[arg-type]
            return lambda number: None
        row = algorithm("all_reduce", call.algorithm)
        request = Request("all_reduce", call.dtype, "sum", call.count, len(lanes), "cpu")
        if row.protocol is SENTINEL:
            self._count_passes(row, request, call)
        sources = [self._tensor(call) for _ in lanes]
        expected = reference.all_reduce(sources)
        targets = sources if call.in_place else [self._tensor(call) for _ in lanes]
        for lane, source, target in zip(lanes, sources, targets, strict=True):
            shape = Launch(call.block, call.grid)
            made = plan(row, request, lane, shape)  # type: ignore[arg-type]
            made.run(source.data_ptr(), target.data_ptr())
        return partial(self._check, call, targets, expected)

    def _tensor(self, call: Call) -> torch.Tensor:
        whole = torch.randn(call.offset + call.count, generator=self._data).to(call.dtype)
        if self.rng.random() < 0.3:
            # The first items look like empty sentinel slots.
            reference.bits(whole)[: call.offset + 4] = -1
        # Kernels take bare addresses: this keeps the memory.
        self._tensors.append(whole)
        return whole[call.offset :]

    def _check(
        self, call: Call, targets: list[torch.Tensor], expected: torch.Tensor, number: int
    ) -> None:
        for rank, target in enumerate(targets):
            wrong = (reference.bits(target) != reference.bits(expected)).nonzero().flatten()
            if len(wrong):
                first = int(wrong[0])
                raise ProtocolError(
                    f"wrong result: call {number} ({call}) rank {rank}, {len(wrong)} elements, the "
                    f"first at {first}: {target[first].item()}, not {expected[first].item()}"
                )

    def _count_passes(self, row: Algorithm, request: Request, call: Call) -> None:
        """Add the passes of a call to those of each block, by arithmetic of its own."""
        shape = Launch(call.block, call.grid)
        for _, count, grid in chunks(row, request, self._layout, shape, None):
            slots = -(-count * call.dtype.itemsize // places.SLOT)
            share = slots if row.shots == 1 else -(-slots // request.world_size)
            blocks = np.arange(grid)
            self._passes[:grid] += np.uint32(-(-share // call.block) // grid)
            self._passes[:grid] += (blocks < -(-share // call.block) % grid).astype(np.uint32)

    def _check_counters(self) -> None:
        epochs = self._by_rank[:, places.EPOCHS : places.ROUNDS].view(np.uint32)
        if (epochs != epochs[0, 0]).any():
            raise ProtocolError(f"epochs out of step: {np.unique(epochs)} in the ranks' words")
        words = self._by_rank[:, places.STAGES : places.FLAGS].view(np.uint32)
        if (words != words[0]).any():
            raise ProtocolError("counts out of step: a block's word differs between ranks")
        # The stage below the count is left to the protocol: it shows there or does no harm.
        passed = (words[0] >> 2) - np.uint32(self.scenario.epoch) & 0x3FFFFFFF
        wrong = (passed != self._passes).nonzero()[0]
        if len(wrong):
            block = int(wrong[0])
            raise ProtocolError(
                f"counts out of step: block {block} counts {passed[block]} passes, "
                f"not {self._passes[block]}"
            )
