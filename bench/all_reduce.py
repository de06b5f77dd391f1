"""Measure every all-reduce of the registry beside torch's own, in one run.

Every point is checked to the bit against the reference before it is timed. The slowest rank
counts, the median of the repeats is reported, and algorithms take turns so that drift hits all
alike. On the CPU the kernels run in Triton's interpreter: the times show that it works, not how
fast it is.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.distributed as dist

from worldline.kernels import reference
from worldline.kernels.registry import algorithms, dtype_name

PEER = "torch gloo"
INTERPRETER_NOTE = "kernels ran in Triton's interpreter: the times are no measure of speed"


@dataclass(frozen=True)
class Row:
    """One measured point.

    Parameters
    ----------
    algorithm : str
        Name in the registry, or of a peer.
    dtype : str
        Such as ``"float32"``.
    nbytes : int
        Bytes of each rank's input.
    exact : bool or None
        Whether every rank's bits equal the reference's; None where that is not promised.
    microseconds : float or None
        Median of the slowest rank's times.
    spread : float or None
        Largest less smallest time over the median.
    reason : str or None
        Why the point was not measured.
    """

    algorithm: str
    dtype: str
    nbytes: int
    exact: bool | None
    microseconds: float | None
    spread: float | None
    reason: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def measure(
    world: Any,
    sizes: Sequence[int],
    dtypes: Sequence[str],
    repeats: int,
    progress: Callable[[], None] | None = None,
) -> list[dict[str, Any]]:
    """Measure on one rank; collective, every rank returns the same rows.

    Parameters
    ----------
    world : World
        The world to measure on.
    sizes : sequence of int
        Bytes of each rank's input.
    dtypes : sequence of str
        Names of torch dtypes.
    repeats : int
        Timed calls of each point.
    progress : callable, optional
        Called after each point.

    Returns
    -------
    list of dict
        Rows of :class:`Row`.
    """
    rows = []
    with _Gloo(world) as gloo:
        for dtype_name in dtypes:
            dtype = getattr(torch, dtype_name)
            for nbytes in sizes:
                rows += _point(world, gloo, dtype, nbytes, repeats)
                if progress is not None:
                    progress()
    return [row.as_dict() for row in rows]


def _point(world: Any, gloo: _Gloo, dtype: torch.dtype, nbytes: int, repeats: int) -> list[Row]:
    name = dtype_name(dtype)
    inputs = [_input(rank, dtype, nbytes) for rank in range(world.size)]
    expected = reference.all_reduce(inputs)
    mine = inputs[world.rank]
    calls: dict[str, Callable[[], torch.Tensor]] = {}
    rows = []
    for row in algorithms("all_reduce", mine.device.type):
        reason = row.supports(world.request("all_reduce", mine))
        if reason is None:
            calls[row.name] = functools.partial(world.all_reduce, mine, algorithm=row.name)
        else:
            rows.append(Row(row.name, name, nbytes, None, None, None, reason))
    exact = {key: gloo.all_true(_same(call(), expected)) for key, call in calls.items()}
    calls[PEER] = lambda: gloo.all_reduce(mine)
    times: dict[str, list[float]] = {key: [] for key in calls}
    for _ in range(repeats):
        for key, call in calls.items():
            gloo.barrier()
            started = time.perf_counter()
            call()
            times[key].append(gloo.slowest(time.perf_counter() - started))
    for key in calls:
        median = statistics.median(times[key])
        spread = (max(times[key]) - min(times[key])) / median
        rows.append(Row(key, name, nbytes, exact.get(key), median * 1e6, spread, None))
    return rows


def _input(rank: int, dtype: torch.dtype, nbytes: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 + rank)
    return torch.randn(max(1, nbytes // dtype.itemsize), generator=generator).to(dtype)


def _same(x: torch.Tensor, expected: torch.Tensor) -> bool:
    return torch.equal(reference.bits(x), reference.bits(expected))


class _Gloo:
    """The peer, and the harness's own way to agree on times, in a group of its own."""

    def __init__(self, world: Any) -> None:
        self._world = world

    def __enter__(self) -> _Gloo:
        store = dist.PrefixStore("bench", self._world.store)
        dist.init_process_group(
            "gloo", store=store, rank=self._world.rank, world_size=self._world.size
        )
        return self

    def __exit__(self, *error: object) -> None:
        dist.destroy_process_group()

    def all_reduce(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        dist.all_reduce(y)
        return y

    def barrier(self) -> None:
        dist.barrier()

    def slowest(self, seconds: float) -> float:
        value = torch.tensor(seconds, dtype=torch.float64)
        dist.all_reduce(value, op=dist.ReduceOp.MAX)
        return value.item()

    def all_true(self, verdict: bool) -> bool:
        value = torch.tensor(int(verdict))
        dist.all_reduce(value, op=dist.ReduceOp.MIN)
        return bool(value.item())
