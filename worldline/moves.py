"""Collectives that move data and change no bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.compiler import is_dynamo_compiling

from worldline.eager import eager
from worldline.run import Form, run

if TYPE_CHECKING:
    from worldline.world import World


def _all_ranks(size: int, x: torch.Tensor) -> list[tuple[int, ...]]:
    """List the shapes that all ranks' inputs have together."""
    shapes = [(size, *x.shape)]
    if x.dim():
        shapes.append((size * x.shape[0], *x.shape[1:]))
    return shapes


_ALL_GATHER = Form("all_gather", _all_ranks, lambda request, rank: rank * request.nbytes)


def all_gather(
    self: World,
    x: torch.Tensor,
    out: torch.Tensor | None = None,
    algorithm: str | None = None,
    lane: int = 0,
) -> torch.Tensor:
    """Gather every rank's ``x``, in rank order; every rank gets all, bit for bit.

    Gradients are not recorded.

    Parameters
    ----------
    x : Tensor
        Any dtype but quantized ones; any shape, strides and alignment; same dtype and count on all
        ranks.
    out : Tensor, optional
        Where to write; dtype and device of ``x``, and shape ``(size, *x.shape)`` or that of ``x``
        with ``size`` times its first dimension. To work in place pass as ``x`` the part of it that
        is this rank's. A new contiguous tensor of the first shape by default.
    algorithm : str, optional
        A name of the registry, in place of the chooser's pick; equal on all ranks.
    lane : int
        Which of the world's lanes; equal on all ranks.

    Returns
    -------
    Tensor
        ``out``, or the new tensor.

    Raises
    ------
    InvalidArgument
        For an argument that breaks a rule.
    UnsupportedError
        When no algorithm serves the dtype; when a kernel that is not loaded yet is asked for
        inside a CUDA graph's capture; or under fake tensors, or a tracer that would lose the call.
    CollectiveTimeout
        When a wait passed its deadline, here or on a peer; the output is then whole, or NaN in
        every element (0 in a dtype that has none). On a GPU the error comes with the next call or
        ``synchronize``.
    CollectiveAborted
        When another rank's call ended in an exception; the output is as after a timeout.
    LaneOverlap
        When two operations of the lane ran at once.
    MismatchError
        In debug mode, when ranks differ in their arguments.
    WorldClosed
        After ``close``, or in a fork of this process.
    """
    call = eager(run) if is_dynamo_compiling() else run
    return call(self, _ALL_GATHER, x, out, lane, algorithm=algorithm)
