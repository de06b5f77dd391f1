"""What a seed runs: a world, a stream of all-reduces, and the checks on what came out.

The calls go through the real launcher (chunks, widths, grids) into the real kernels.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from tests.simulator.faults import NO_FAULTS, Faults, check_known, exact_or_nan
from tests.simulator.hosts import Meeting, Recorder, SimulatedArena
from tests.simulator.interpreter import Machine
from tests.simulator.memory import Memory, ProtocolError
from tests.simulator.naps import Naps
from tests.simulator.planting import replaced
from tests.simulator.scheduler import LIMIT_NS, Scheduler
from tests.simulator.stale import fill_with_older
from worldline.kernels import reference
from worldline.kernels.chunks import chunks
from worldline.kernels.launch import BarrierPlan, plan
from worldline.kernels.protocols import SENTINEL
from worldline.kernels.registry import Algorithm, Launch, Request, algorithm
from worldline.primitives import lane as lane_module
from worldline.primitives import layout as places
from worldline.primitives.lane import Lane
from worldline.primitives.layout import ArenaLayout

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
    older_slots : bool
        Whether they start as LL calls of any older epochs would have left them, each half of a
        slot as another.
    faults : Faults
        What goes wrong.
    """

    world: int
    calls: tuple[Call, ...]
    epoch: int = 0
    channels: int = 1
    stale_slots: bool = False
    older_slots: bool = False
    faults: Faults = NO_FAULTS


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
        size = places.LL + 8 * 2 * places.CHANNEL * scenario.channels
        self._layout = ArenaLayout(scenario.world, size)
        assert self._layout.channels >= scenario.channels
        self._stride = self._layout.size
        self._arenas = np.zeros(scenario.world * self._stride + places.PAGE, np.uint8)
        skip = -self._arenas.ctypes.data % places.PAGE
        self._arenas = self._arenas[skip : skip + scenario.world * self._stride]
        self._by_rank = self._arenas.reshape(scenario.world, self._stride)
        self._fill_arenas()
        self._views = [
            SimulatedArena(self._arenas, rank, self._layout) for rank in range(scenario.world)
        ]
        self._data = torch.Generator().manual_seed(self.rng.getrandbits(32))
        self._tensors: list[torch.Tensor] = []
        self._passes = np.zeros(places.MAX_BLOCKS, np.uint32)
        self._before = scenario.epoch
        """The epoch from which they count."""
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
        if self.scenario.older_slots:
            fill_with_older(
                self._by_rank[:, places.LL : self._layout.sentinel].view(np.uint32),
                self.scenario.epoch,
                self.rng.getrandbits(32),
            )

    def run(self) -> None:
        """Run and check.

        Raises
        ------
        ProtocolError
            For a hang, a wrong result, a race inside a block or counters out of step.
        """
        faults, ranks = self.scenario.faults, range(self.scenario.world)
        recorders = [Recorder() for _ in ranks]
        seconds = LIMIT_NS / 1e9
        lanes = [
            Lane(recorders[rank], self._views[rank], rank, len(ranks), seconds)  # type: ignore[arg-type]
            for rank in ranks
        ]
        meeting = Meeting(lanes)
        checks = []
        for number, call in enumerate(self.scenario.calls):
            for recorder in recorders:
                recorder.call = number
            if number == faults.recovery:
                self._before = 0
                self._passes[:] = 0
                for rank in ranks:
                    recorders[rank].on_host("recover", meeting.host(rank, lambda: scheduler))
            checks.append(self._record(lanes, call, number))
        freshness = self.rng.choice((0.3, 0.7, 1.0))
        memory = Memory(self._arenas, self._stride, self.rng, freshness)
        naps = Naps(faults.slow, faults.naps)
        streams = [recorder.stream for recorder in recorders]
        scheduler = Scheduler(memory, self.rng, streams, naps, faults.in_vain)
        for view in self._views:
            view.scheduler = scheduler
        # What a rank shows of its waits no longer changes when its lane is asked.
        with replaced(lane_module._BEAT_SECONDS, 0.0):
            try:
                Machine(self._arenas, self._stride, memory, scheduler, faults.lost).run()
            finally:
                self.steps = scheduler.steps
            if faults.recovery is None:
                meeting.known = {lane.rank: lane.fault() for lane in lanes}
        if faults.in_vain:
            self._check_faults(checks, meeting)
        else:
            for check in checks:
                check(False)
            if any(error is not None for error in meeting.known.values()):
                raise ProtocolError("the lane is dead")
        if faults.recovery is not None or not faults.in_vain:
            self._check_counters()

    def _check_faults(self, checks: list[Any], meeting: Meeting) -> None:
        """Up to a recovery sums are right or NaN, and then all ranks know; after it, right."""
        faults = self.scenario.faults
        before = len(checks) if faults.recovery is None else faults.recovery
        inexact = {rank for check in checks[:before] for rank in check(True)}
        for check in checks[before:]:
            check(False)
        if meeting.known:
            check_known(faults, inexact, meeting.known)

    def _record(self, lanes: list[Lane], call: Call, number: int) -> Any:
        """Put a call on all ranks' streams; returns its check, and that the ranks that it finds."""
        missing = [self.scenario.faults.misses(number, lane.rank) for lane in lanes]
        if call.algorithm == "barrier":
            for lane, misses in zip(lanes, missing, strict=True):
                if not misses:
                    BarrierPlan(lane).run()
            return lambda in_vain: []
        row = algorithm("all_reduce", call.algorithm)
        request = Request("all_reduce", call.dtype, "sum", call.count, len(lanes), "cpu")
        if row.protocol is SENTINEL:
            self._count_passes(row, request, call)
        sources = [self._tensor(call) for _ in lanes]
        expected = reference.all_reduce(sources)
        targets = sources if call.in_place else [self._tensor(call) for _ in lanes]
        made_by = {}
        for lane, source, target, misses in zip(lanes, sources, targets, missing, strict=True):
            if misses:
                continue
            made = plan(row, request, lane, Launch(call.block, call.grid))
            made.run(source.data_ptr(), target.data_ptr())
            made_by[lane.rank] = target
        return partial(self._check, call, made_by, expected, number)

    def _tensor(self, call: Call) -> torch.Tensor:
        whole = torch.randn(call.offset + call.count, generator=self._data).to(call.dtype)
        if self.rng.random() < 0.3:
            # The first items look like empty sentinel slots.
            reference.bits(whole)[: call.offset + 4] = -1
        # Kernels take bare addresses: this keeps the memory.
        self._tensors.append(whole)
        return whole[call.offset :]

    def _check(
        self,
        call: Call,
        targets: dict[int, torch.Tensor],
        expected: torch.Tensor,
        number: int,
        in_vain: bool,
    ) -> list[int]:
        """Check a call's outputs; returns the ranks that have NaN, where waits may be in vain."""
        inexact = []
        for rank, target in targets.items():
            what = f"call {number} ({call}) rank {rank}"
            if in_vain:
                if not exact_or_nan(what, target, expected):
                    inexact.append(rank)
                continue
            wrong = (reference.bits(target) != reference.bits(expected)).nonzero().flatten()
            if len(wrong):
                first = int(wrong[0])
                raise ProtocolError(
                    f"wrong result: {what}, {len(wrong)} elements, the first at {first}: "
                    f"{target[first].item()}, not {expected[first].item()}"
                )
        return inexact

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
        passed = (words[0] >> 2) - np.uint32(self._before) & 0x3FFFFFFF
        wrong = (passed != self._passes).nonzero()[0]
        if len(wrong):
            block = int(wrong[0])
            raise ProtocolError(
                f"counts out of step: block {block} counts {passed[block]} passes, "
                f"not {self._passes[block]}"
            )
