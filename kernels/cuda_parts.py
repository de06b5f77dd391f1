"""CUDA kernels that exchange parts, launched from prepared arguments."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import torch

from worldline.kernels import parts
from worldline.kernels.chunks import batch, chunks, fitted
from worldline.kernels.cuda_launch import (
    CudaKernels,
    CudaPlan,
    LaneArguments,
    Prepared,
    lane_arguments,
    loaded,
)
from worldline.kernels.launch import largest_grid, scale_bits
from worldline.kernels.numerics import DTYPES, OP_CODES
from worldline.kernels.registry import Algorithm, Launch, Request
from worldline.primitives import layout
from worldline.primitives.cuda_module import launch_config
from worldline.primitives.lane import Lane

SOURCE = Path(__file__).resolve().parent / "cuda" / "parts.cu"
_UNIT = 8
"""Bytes of an access, where a call's tensors and parts are whole numbers of them."""
_OF_RANKS = ctypes.c_uint64 * layout.MAX_WORLD


class Arguments(ctypes.Structure):
    """``struct Parts`` of parts_arguments.cuh."""

    _fields_ = (
        ("lane", LaneArguments),
        ("source", ctypes.c_uint64),
        ("target", ctypes.c_uint64),
        ("send_at", _OF_RANKS),
        ("send", _OF_RANKS),
        ("take_at", _OF_RANKS),
        ("take", _OF_RANKS),
        ("send_items", _OF_RANKS),
        ("take_items", _OF_RANKS),
        ("items", ctypes.c_uint64),
        ("region", ctypes.c_uint64),
        ("buffer", ctypes.c_uint64),
        ("stride", ctypes.c_uint64),
        ("spoilt", ctypes.c_uint64),
        ("scale", ctypes.c_uint64),
        ("launch_point", ctypes.c_uint32),
    )


def expressions(
    row: Algorithm, dtype: torch.dtype, operation: str, world_size: int
) -> dict[tuple[int, int], str]:
    """Return the C++ names of a row's kernels, by bytes of an access and items of a thread.

    Zero items where there is a thread for every one.
    """
    rule = parts.RULES[row.collective]
    units = (_UNIT, min(_UNIT, dtype.itemsize) if rule.reduces else 1)
    number = f", {DTYPES[dtype]}, {OP_CODES[operation]}" if rule.reduces else ""
    same = str(not rule.spread).lower()
    return {
        (unit, items): f"{row.kernel}<{unit}, {same}, {items}{number}>"
        for unit in units
        for items in (0, *row.batches(world_size))
    }


@functools.cache
def _functions(
    names: tuple[tuple[tuple[int, int], str], ...], rank: int, size: int, device: torch.device
) -> dict[tuple[int, int], Any]:
    """Compile and load kernels, for as long as the process lives; the device is current.

    By their names: what has one variant is loaded once, whichever collective came first.
    """
    found = loaded(SOURCE, Arguments, rank, size, device, [[name for _, name in names]])
    return {form: found[name] for form, name in names}


class PartsPlan(CudaPlan):
    """A plan of launches that exchange parts."""

    def __init__(
        self,
        algorithm: Algorithm,
        request: Request,
        lane: Lane,
        shape: Launch,
        cuda: CudaKernels,
    ) -> None:
        names = tuple(expressions(algorithm, request.dtype, request.operation, lane.size).items())
        functions = _functions(names, lane.rank, lane.size, cuda.device)
        narrow = min(unit for unit, _ in functions)
        arena, itemsize = lane.arena.layout, request.dtype.itemsize
        shape = fitted(algorithm, arena, shape)
        most = largest_grid(algorithm, shape, lane.provider)
        launches = []
        for offset, count, blocks in chunks(algorithm, request, arena, shape, most):
            arguments = _arguments(algorithm, request, lane, shape, offset // itemsize, count)
            items = batch(algorithm, request, arena, shape, blocks, count)
            whole = all(
                number % _UNIT == 0
                for field in ("send_at", "send", "take_at", "take")
                for number in getattr(arguments, field)
            )
            launches.append(
                Prepared(
                    0,  # A part's place is in the arguments.
                    arguments,
                    (ctypes.c_void_p * 1)(ctypes.addressof(arguments)),
                    (functions[narrow, items], functions[_UNIT if whole else narrow, items]),
                    launch_config(blocks, algorithm.threads(shape), cuda.dependent_launch),
                )
            )
        super().__init__(launches, _UNIT, cuda)


def _arguments(
    algorithm: Algorithm, request: Request, lane: Lane, shape: Launch, first: int, count: int
) -> Arguments:
    """Describe a launch on ``count`` elements of every part, from the ``first`` on."""
    arena, size = lane.arena.layout, request.dtype.itemsize
    spans = parts.parts(request.collective, lane.rank, lane.size, request.part, request.root)
    arguments = Arguments()
    arguments.lane = lane_arguments(lane, request.collective)
    for name, all_spans in (("send", spans.send), ("take", spans.take)):
        for peer, span in enumerate(all_spans):
            clipped = span.clipped(first, count)
            items = algorithm.items(request, clipped.count)
            getattr(arguments, f"{name}_at")[peer] = clipped.start * size
            getattr(arguments, name)[peer] = clipped.count * size
            getattr(arguments, f"{name}_items")[peer] = items
            arguments.items = max(arguments.items, items)
    if not parts.RULES[request.collective].spread:
        # Every peer gets the own part: it is read by what the largest one has.
        own = max(range(lane.size), key=lambda peer: arguments.send[peer])
        arguments.send[lane.rank], arguments.send_at[lane.rank] = (
            arguments.send[own],
            arguments.send_at[own],
        )
    arguments.region = algorithm.protocol.region(arena)
    arguments.buffer = algorithm.protocol.buffer(arena)
    arguments.stride = algorithm.stride(arena)
    arguments.spoilt = int.from_bytes(bytes([parts.spoilt_byte(request.dtype)] * 8), "little")
    arguments.scale = scale_bits(request.scale)
    arguments.launch_point = shape.launch_point
    return arguments
