"""How an operation is timed: in a CUDA graph on GPUs, by the clock on the CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from worldline.bench.group import Group

OPERATIONS = 100
"""Operations in a graph."""
EAGER_CALLS = 200
WARM_UP = 3
_HEAD_START_CYCLES = 4_000_000
"""Some two milliseconds: the host has queued the whole measurement by then, whoever's."""

Call = Callable[[], object]


def on_the_cpu(calls: Mapping[str, Call], group: Group, repeats: int) -> dict[str, list[float]]:
    """Time calls in turn, so that drift hits all alike; the slowest rank's seconds of each."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            group.barrier()
            started = time.perf_counter()
            call()
            times[name].append(group.slowest(time.perf_counter() - started))
    return times


class Graphs:
    """Operations captured in graphs, replayed in turn.

    Every replay is behind a barrier on the device, behind a pause in which the host queues the
    rest: so the ranks start together, and a rank's time holds no waiting for another's host.

    Parameters
    ----------
    world : World
        The world, whose barrier is used.
    group : Group
        The harness's group.
    """

    def __init__(self, world: Any, group: Group) -> None:
        self._group = group
        self._stream = torch.cuda.Stream()
        self._graphs: dict[str, torch.cuda.CUDAGraph] = {}
        world.barrier()
        self._start = self._captured(world.barrier)

    def _captured(self, call: Call, operations: int = 1) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
            for _ in range(operations):
                call()
        return graph

    def add(self, name: str, call: Call) -> None:
        """Capture an operation, once it has run outside; collective."""
        for _ in range(WARM_UP):
            call()
        torch.cuda.synchronize()
        self._graphs[name] = self._captured(call, OPERATIONS)

    def drop(self, name: str) -> None:
        """Forget an operation, whether or not it was captured here."""
        self._graphs.pop(name, None)

    def times(self, repeats: int) -> dict[str, list[float]]:
        """Replay all in turn; the slowest rank's seconds of one operation, for each replay."""
        return self._in_turn(repeats, self._replay)

    def replays(self, repeats: int) -> dict[str, list[float]]:
        """Replay each on an idle GPU after a meeting of the hosts, as callers of a graph meet it.

        On the default stream, as most are. Launching the graph counts, and so does waiting for a
        rank whose host is later.
        """

        def replay(graph: torch.cuda.CUDAGraph) -> float:
            self._group.barrier()
            return _timed(graph, torch.cuda.default_stream())

        return self._in_turn(repeats, replay)

    def _in_turn(
        self, repeats: int, replay: Callable[[torch.cuda.CUDAGraph], float]
    ) -> dict[str, list[float]]:
        times: dict[str, list[float]] = {name: [] for name in self._graphs}
        for turn in range(WARM_UP + repeats):
            for name, graph in self._graphs.items():
                seconds = self._group.slowest(replay(graph)) / OPERATIONS
                if turn >= WARM_UP:
                    times[name].append(seconds)
        return times

    def _replay(self, graph: torch.cuda.CUDAGraph) -> float:
        with torch.cuda.stream(self._stream):
            torch.cuda._sleep(_HEAD_START_CYCLES)
            self._start.replay()
        return _timed(graph, self._stream)


def _timed(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.stream(stream):
        begin.record()
        graph.replay()
        end.record()
    stream.synchronize()
    return begin.elapsed_time(end) / 1e3


def host_seconds(call: Call, group: Group, repeats: int) -> list[float]:
    """Time what an eager call costs the host; the slowest rank's seconds, for each repeat."""
    found = []
    for turn in range(1 + repeats):
        torch.cuda.synchronize()
        group.barrier()
        started = time.perf_counter()
        for _ in range(EAGER_CALLS):
            call()
        seconds = (time.perf_counter() - started) / EAGER_CALLS
        torch.cuda.synchronize()
        seconds = group.slowest(seconds)
        if turn:
            found.append(seconds)
    return found
