"""The copies of a move on a GPU's two streams, by a driver that only keeps what follows what."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from worldline.kernels.launch import plan
from worldline.kernels.registry import Launch, Request, algorithm
from worldline.primitives import copies, cuda_driver
from worldline.primitives.copies import EngineCopies
from worldline.primitives.lane import Lane
from worldline.primitives.layout import MINIMUM, ArenaLayout

RANKS, RANK = 3, 1
SOURCE, TARGET = 1 << 40, 1 << 41
MAIN = "main"


@dataclass
class Order:
    """A driver: of each copy and barrier, which earlier ones have ended when it begins."""

    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
    done: list[tuple[str, int, int, int, frozenset[int]]] = field(default_factory=list)
    streams: dict[str, frozenset[int]] = field(default_factory=lambda: {MAIN: frozenset()})
    events: dict[str, frozenset[int]] = field(default_factory=dict)

    def cuStreamCreate(self, flags: int) -> tuple[int, str]:
        self.streams["beside"] = frozenset()
        return 0, "beside"

    def cuEventCreate(self, flags: int) -> tuple[int, str]:
        self.events[name := f"event {len(self.events)}"] = frozenset()
        return 0, name

    def cuEventRecord(self, event: str, stream: str) -> tuple[int]:
        self.events[event] = self.streams[stream]
        return (0,)

    def cuStreamWaitEvent(self, stream: str, event: str, flags: int) -> tuple[int]:
        self.streams[stream] |= self.events[event]
        return (0,)

    def cuMemcpyDtoDAsync(self, target: int, source: int, nbytes: int, stream: str) -> tuple[int]:
        self.put("copy", stream, target, source, nbytes)
        return (0,)

    def put(
        self, kind: str, stream: str, target: int = 0, source: int = 0, nbytes: int = 0
    ) -> None:
        before = self.streams[stream]
        self.streams[stream] = before | {len(self.done)}
        self.done.append((kind, target, source, nbytes, before))


def faults(order: Order, layout: ArenaLayout, half: int, bases: list[int]) -> list[str]:
    """Say which copies are made too early, or not waited for by the barrier behind them."""
    barriers = [number for number, (kind, *_) in enumerate(order.done) if kind == "barrier"]
    wrong = []
    for number, (kind, target, source, _, before) in enumerate(order.done):
        passed = sum(barrier in before for barrier in barriers)
        if kind == "barrier":
            if before != frozenset(range(number)):
                wrong.append(f"barrier {passed} does not wait for all before it")
        elif SOURCE <= source < TARGET and target < SOURCE:
            if passed != (source - SOURCE) // half:
                wrong.append(f"a chunk is staged behind {passed} barriers")
            if target != bases[RANK] + layout.staged + passed % 2 * half:
                wrong.append("a chunk is staged in the other half")
        elif source < SOURCE:
            part, offset = divmod(target - TARGET, SIZE)
            if passed != offset // half + 1:
                wrong.append(f"a chunk is pulled behind {passed} barriers")
            if source != bases[part] + layout.staged + (passed - 1) % 2 * half:
                wrong.append("a chunk is pulled from the other half")
    return wrong


LAYOUT = ArenaLayout(RANKS, 3 * MINIMUM)
ROW = algorithm("all_gather", "copy_engine")
HALF = ROW.capacity(LAYOUT)
SIZE = 3 * HALF + 5


@pytest.mark.parametrize("left_out", [None, "fork", "join"])
def test_streams_wait_for_each_other(monkeypatch: pytest.MonkeyPatch, left_out: str | None) -> None:
    order = Order()
    monkeypatch.setattr(cuda_driver, "driver", order)
    monkeypatch.setattr(copies, "_current", lambda: MAIN)
    if left_out:
        monkeypatch.setattr(EngineCopies, left_out, lambda self: None)

    def launch(kernel: Any, grid: int, args: tuple[Any, ...], **constants: Any) -> None:
        order.put("barrier", MAIN)

    bases = [rank << 32 for rank in range(1, 1 + RANKS)]
    arena: Any = SimpleNamespace(layout=LAYOUT, bases=bases, table=0, copies=EngineCopies())
    provider: Any = SimpleNamespace(launch=launch, device_type="cuda")
    lane = Lane(provider, arena, RANK, RANKS, 1.0)
    request = Request("all_gather", torch.uint8, "", SIZE, RANKS, "cuda")
    made = plan(ROW, request, lane, Launch(128, 1))
    made.run(SOURCE, TARGET)
    assert bool(faults(order, LAYOUT, HALF, bases)) is (left_out is not None)
    kinds = [kind for kind, *_ in order.done]
    assert kinds.count("barrier") == 5
    assert kinds.count("copy") == 4 * (1 + RANKS)
    # Every byte of the output is written once.
    spans = sorted((t, n) for k, t, _, n, _ in order.done if k == "copy" and t >= TARGET)
    ends = [TARGET, *(start + nbytes for start, nbytes in spans)]
    assert [start for start, _ in spans] == ends[:-1]
    assert ends[-1] == TARGET + RANKS * SIZE
    order.done.clear()
    made.run(TARGET + RANK * SIZE, TARGET)  # in place
    assert [kind for kind, *_ in order.done].count("copy") == 4 * RANKS
