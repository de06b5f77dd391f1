"""All-reduce beside others' own; besides, without its deadline and on the fewest multiprocessors.

The shapes of the fewest multiprocessors take turns among themselves.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable

import torch

from worldline.bench import sms, timing
from worldline.bench.points import Point, measure, one_line
from worldline.kernels.launch import plan
from worldline.kernels.registry import algorithm


class AllReducePoint(Point):
    """One dtype and size on one rank."""

    collective = "all_reduce"

    def _compare(self, name: str, repeats: int) -> dict[str, tuple[bool, int, list[float]]]:
        """Find how few multiprocessors do for a row: is it exact, how many, its times.

        Timed apart from the rest: the shapes are compared with each other.
        """
        world, mine = self._world, self._mine
        row = algorithm("all_reduce", name)
        default = row.launches(world.request("all_reduce", mine, self._op))[0]
        shapes = [*sms.smaller_grids(world, row, mine), default]
        calls: dict[str, Callable[[], object]] = {
            str(shape): functools.partial(
                world.all_reduce, mine, op=self._op, algorithm=name, launch=shape
            )
            for shape in shapes
        }
        graphs = timing.Graphs(world, self._group)
        failed = self._try(calls, graphs.add)
        for shape in failed:
            graphs.drop(shape)
        able = [shape for shape in shapes if str(shape) not in failed]
        if not able:
            return {}
        times = graphs.times(repeats)
        found = able[sms.fewest([statistics.median(times[str(shape)]) for shape in able])]
        exact = self._exact(name, calls[str(found)])
        occupied = sms.occupied(world, row, mine, found)
        return {f"{name}, fewest SMs": (exact, occupied, times[str(found)])}

    def _add(self, calls: dict[str, Callable[[], object]], refused: dict[str, str]) -> None:
        """Add the one-shot CUDA kernel built without its deadline, to see what that costs."""
        from worldline.kernels.cuda_launch import CudaKernels

        world, mine = self._world, self._mine
        row = algorithm("all_reduce", "ll_one_shot_cuda")
        request = world.request("all_reduce", mine, self._op)
        target, reason, made = torch.empty_like(mine), None, None
        try:
            kernels = CudaKernels(world.rank, world.size, world.device, [], ["WL_NO_DEADLINE"])
            kernels.add([mine.dtype], self._op)
            made = plan(row, request, world.lane, row.launches(request)[0], kernels)
        except Exception as error:
            reason = one_line(error)
        name, reason = f"{row.name}, no deadline", self._group.first_reason(reason)
        if reason is not None or made is None:
            refused[name] = str(reason)
            return
        run = made.run

        def call() -> torch.Tensor:
            run(mine.data_ptr(), target.data_ptr())
            return target

        calls[name] = call


measure_all_reduce = functools.partial(measure, AllReducePoint, "all_reduce")
