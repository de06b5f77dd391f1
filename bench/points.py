"""Measure every algorithm of a collective beside other libraries' own, in one run.

Every point of ours is checked to the bit against the reference, what promises no order on whole
numbers. The slowest rank counts, the median of the repeats is reported, and algorithms take turns
so that drift hits all alike. On GPUs an operation is timed in a CUDA graph, and what an eager call
costs the host as well.
On the CPU the kernels run in Triton's interpreter: the times say that it works, not how fast.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from worldline.bench import sms, timing
from worldline.bench.group import Group
from worldline.bench.peers import Peer, peers
from worldline.bench.rows import Row
from worldline.kernels import reference
from worldline.kernels.parts import default_op
from worldline.kernels.registry import algorithm, algorithms, dtype_name

INTERPRETER_NOTE = "kernels ran in Triton's interpreter: the times are no measure of speed"


def measure(
    make: Callable[[Any, Group, torch.dtype, int, str], Point],
    collective: str,
    world: Any,
    sizes: Sequence[int],
    dtypes: Sequence[str],
    repeats: int,
    modules: Sequence[str] = (),
    progress: Callable[[], None] | None = None,
    op: str | None = None,
) -> list[dict[str, Any]]:
    """Measure on one rank; collective, every rank returns the same rows.

    Parameters
    ----------
    make : callable
        Makes a point of the collective: a :class:`Point`.
    collective : str
        What the world and the peers call it.
    world : World
        The world to measure on.
    sizes : sequence of int
        Bytes of each rank's input.
    dtypes : sequence of str
        Names of torch dtypes.
    repeats : int
        Timed calls, or replays, of each point.
    modules : sequence of str
        Modules of further peers; see :mod:`worldline.bench.peers`.
    progress : callable, optional
        Called after each point.
    op : str, optional
        The reduction, by default the collective's own.

    Returns
    -------
    list of dict
        Rows of :class:`worldline.bench.rows.Row`.
    """
    rows: list[Row] = []
    op = default_op(collective) if op is None else op
    with Group(world) as group:
        # An input holds one element at least.
        made, refused = _make_peers(collective, world, group, modules, max(16, *sizes), op)
        for name in dtypes:
            for nbytes in sizes:
                point = make(world, group, getattr(torch, name), nbytes, op)
                rows += point.measure(made, repeats)
                rows += [Row(peer, True, name, nbytes, reason=why) for peer, why in refused.items()]
                if progress is not None:
                    progress()
        for peer in made.values():
            peer.close()
    return [row.as_dict() for row in rows]


def _make_peers(
    collective: str,
    world: Any,
    group: Group,
    modules: Sequence[str],
    max_bytes: int,
    op: str,
) -> tuple[dict[str, Peer], dict[str, str]]:
    """Return the peers that work on every rank, and why the others do not."""
    made: dict[str, Peer] = {}
    refused: dict[str, str] = {}
    assert dist.group.WORLD is not None
    for name, make in peers(collective, world.device, modules, op).items():
        peer, reason = None, None
        try:
            peer = make(world.rank, world.size, world.device, dist.group.WORLD, max_bytes)
        except Exception as error:
            reason = one_line(error)
        reason = group.first_reason(reason)
        if reason is None and peer is not None:
            made[name] = peer
        else:
            refused[name] = str(reason)
    return made, refused


class Point:
    """One dtype and size on one rank; what a collective measures besides is for subclasses."""

    collective: str

    def __init__(self, world: Any, group: Group, dtype: torch.dtype, nbytes: int, op: str) -> None:
        self._world, self._group, self._op = world, group, op
        # A move has none.
        self._reduction = {"op": op} if op else {}
        self._dtype, self._nbytes = dtype, nbytes
        self._inputs = [_input(rank, dtype, nbytes) for rank in range(world.size)]
        self._mine = self._inputs[world.rank].to(world.device)

    def measure(self, made: dict[str, Peer], repeats: int) -> list[Row]:
        """Check ours, then time ours and the peers'."""
        world, mine = self._world, self._mine
        ours = getattr(world, self.collective)
        calls: dict[str, Callable[[], object]] = {}
        refused: dict[str, str] = {}
        for row in algorithms(self.collective, mine.device.type):
            reason = row.supports(world.request(self.collective, mine, self._op))
            if reason is None:
                calls[row.name] = functools.partial(
                    ours, mine, algorithm=row.name, **self._reduction
                )
            else:
                refused[row.name] = reason
        exact = {name: self._exact(name, call) for name, call in calls.items()}
        for name, peer in made.items():
            calls[name] = functools.partial(_call, peer, self.collective, mine)
        replays: dict[str, list[float]] = {}
        host: dict[str, list[float]] = {}
        occupied: dict[str, int] = {}
        if mine.is_cuda:
            self._add(calls, refused)
            graphs = timing.Graphs(world, self._group)
            failed = self._try(calls, graphs.add)
            for name in failed:
                graphs.drop(name)
            times, replays = graphs.times(repeats), graphs.replays(repeats)
            for name in times:
                host[name] = timing.host_seconds(calls[name], self._group, repeats)
            occupied = {name: self._occupied(name) for name in exact if name in times}
            unasked = [name for name in occupied if algorithm(self.collective, name).bitwise]
            if unasked:
                best = min(unasked, key=lambda name: statistics.median(times[name]))
                for name, found in self._compare(best, repeats).items():
                    exact[name], occupied[name], times[name] = found
        else:
            failed = self._try(calls, lambda name, call: call())
            works = {name: call for name, call in calls.items() if name not in failed}
            times = timing.on_the_cpu(works, self._group, repeats)
        refused |= failed
        label = dtype_name(self._dtype)
        return [
            *(
                Row(
                    algorithm=name,
                    peer=name in made,
                    dtype=label,
                    nbytes=self._nbytes,
                    exact=exact.get(name),
                    microseconds=_median(times[name]),
                    spread=(max(times[name]) - min(times[name])) * 1e6 / _median(times[name]),
                    replay_microseconds=_median(replays[name]) if name in replays else None,
                    host_microseconds=_median(host[name]) if name in host else None,
                    sms=occupied.get(name),
                )
                for name in times
            ),
            *(
                Row(name, name in made, label, self._nbytes, exact.get(name), reason=reason)
                for name, reason in refused.items()
            ),
        ]

    def _occupied(self, name: str) -> int:
        row = algorithm(self.collective, name)
        shape = row.launches(self._world.request(self.collective, self._mine))[0]
        return sms.occupied(self._world, row, self._mine, shape)

    def _add(self, calls: dict[str, Callable[[], object]], refused: dict[str, str]) -> None:
        """Add further calls to time on GPUs, or why they cannot be made."""

    def _compare(self, name: str, repeats: int) -> dict[str, tuple[bool, int, list[float]]]:
        """Time what the fastest row is compared with: is it exact, how many SMs, its times."""
        return {}

    def _exact(self, name: str, call: Callable[[], Any]) -> bool:
        inputs, row = self._inputs, algorithm(self.collective, name)
        if not row.bitwise:
            # Of whole numbers, none of them -0, the sum is the same in any order.
            inputs = [torch.round(8 * x).clamp(-128, 128) + 0 for x in inputs]
            mine = inputs[self._world.rank].to(self._world.device)
            ours = getattr(self._world, self.collective)
            call = functools.partial(ours, mine, algorithm=name, **self._reduction)
        expected = reference.bits(getattr(reference, self.collective)(inputs, **self._reduction))
        return self._group.all_true(torch.equal(reference.bits(call().cpu()), expected))

    def _try(
        self,
        calls: dict[str, Callable[[], object]],
        attempt: Callable[[str, Callable[[], object]], object],
    ) -> dict[str, str]:
        """Try each call on every rank; return why those that fail anywhere do."""
        failed = {}
        for name, call in calls.items():
            reason = None
            try:
                attempt(name, call)
            except Exception as error:
                reason = one_line(error)
            reason = self._group.first_reason(reason)
            if reason is not None:
                failed[name] = reason
        return failed


def _call(peer: Peer, collective: str, x: torch.Tensor) -> object:
    # Looked up here: a peer that lacks it is a row with its error.
    return getattr(peer, collective)(x)


def _median(seconds: list[float]) -> float:
    """Return the median in microseconds."""
    return statistics.median(seconds) * 1e6


def one_line(error: Exception) -> str:
    """Say an error in one line."""
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _input(rank: int, dtype: torch.dtype, nbytes: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 + rank)
    return torch.randn(max(1, nbytes // dtype.itemsize), generator=generator).to(dtype)
