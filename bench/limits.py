"""The limit: what the hardware takes for the steps of a small all-reduce, and what ours adds.

One thread of each of two GPUs measures loads, a fence, a store that its peer sees, and the LL
all-reduce of eight bytes looped inside one kernel; graphs measure the hand-over between dependent
launches and what one all-reduce adds. All in one run.
"""

from __future__ import annotations

import ctypes
import statistics
from pathlib import Path
from typing import Any

import torch

from worldline.bench import timing
from worldline.bench.group import Group
from worldline.kernels.cuda_launch import LaneArguments, lane_arguments
from worldline.primitives.cuda_module import CudaModule
from worldline.primitives.errors import InvalidArgument

SOURCE = Path(__file__).resolve().parent / "cuda" / "limits.cu"
STEPS = ("empty kernel", "load", "remote load", "fence", "round trip", "ll loop")
"""What the kernels measure, by their number in limits.cuh; a round trip is two stores."""
ROUNDS, WARM_UP = 20_000, 100
SMALL = 1024
"""Bytes of the all-reduce that is captured in a graph."""


class Arguments(ctypes.Structure):
    """``struct Limits`` of limits.cuh."""

    _fields_ = (
        ("lane", LaneArguments),
        ("own", ctypes.c_uint64),
        ("peer", ctypes.c_uint64),
        ("result", ctypes.c_uint64),
        ("rounds", ctypes.c_uint32),
    )


def expression(step: str) -> str:
    """Return the C++ name of a step's kernel."""
    return f"step<{STEPS.index(step)}>"


def measure(world: Any, repeats: int) -> dict[str, float]:
    """Measure on this rank of a world of two GPUs; collective.

    Parameters
    ----------
    world : World
        Two ranks, a GPU to each, idle.
    repeats : int
        Runs of each step, whose median counts.

    Returns
    -------
    dict
        Nanoseconds, the slower rank's: ``load`` (that hits the own L2), ``remote load``, ``fence``
        (after a store), ``store`` (seen by a polling peer), ``ll loop`` (an all-reduce of 8 bytes
        inside a kernel), ``hand-over`` (an empty kernel in a graph with dependent launch) and
        ``all-reduce`` (of 1 KB in a graph).

    Raises
    ------
    InvalidArgument
        For a world that is not of two GPUs.
    """
    if world.size != 2 or world.device.type != "cuda":
        raise InvalidArgument("world", world, "must be of two ranks, with a GPU to each")
    module = CudaModule(SOURCE, world.device, [expression(step) for step in STEPS])
    times: dict[str, float] = {}
    with Group(world) as group:
        for step in STEPS[1:]:
            runs = [_run(world, module, step) for _ in range(repeats)]
            times[step] = group.slowest(statistics.median(runs))
        times["store"] = times.pop("round trip") / 2
        graphs = timing.Graphs(world, group)
        nothing = _arguments(world, torch.zeros(1, dtype=torch.int64, device=world.device))
        graphs.add("hand-over", lambda: module.launch(expression(STEPS[0]), nothing))
        x = torch.ones(SMALL // 2, dtype=torch.bfloat16, device=world.device)
        graphs.add("all-reduce", lambda: world.all_reduce(x, algorithm="ll_one_shot_cuda"))
        for name, seconds in graphs.times(repeats).items():
            times[name] = statistics.median(seconds) * 1e9
    return times


def ratios(times: dict[str, float]) -> dict[str, float]:
    """Relate ours to the bounds.

    Parameters
    ----------
    times : dict
        From :func:`measure`.

    Returns
    -------
    dict
        ``loop to bound``: the looped all-reduce to a store and a load. ``loop to paper``: to the
        paper's bound of a store and two loads. ``graph to paper``: the all-reduce in a graph to
        that bound and the hand-over.
    """
    paper = times["store"] + 2 * times["load"]
    return {
        "loop to bound": times["ll loop"] / (times["store"] + times["load"]),
        "loop to paper": times["ll loop"] / paper,
        "graph to paper": times["all-reduce"] / (paper + times["hand-over"]),
    }


def _arguments(world: Any, result: torch.Tensor) -> Arguments:
    lane, arguments = world.lane, Arguments()
    arguments.lane = lane_arguments(lane, "all_reduce")
    places = [base + lane.arena.layout.staged for base in lane.arena.bases]
    arguments.own, arguments.peer = places[world.rank], places[1 - world.rank]
    arguments.result, arguments.rounds = result.data_ptr(), ROUNDS
    return arguments


def _run(world: Any, module: CudaModule, step: str) -> float:
    """Run a step once, on both ranks at the same time; nanoseconds of a round."""
    result = torch.zeros(1, dtype=torch.int64, device=world.device)
    world.lane.arena.fill_words(world.lane.arena.layout.staged, 0, 1024)
    world.synchronize()
    world.barrier()
    module.launch(expression(step), _arguments(world, result))
    world.synchronize()
    return result.item() / (ROUNDS - WARM_UP)
