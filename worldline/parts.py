"""The collectives of parts, as a world has them: all but the all-reduce and the barrier.

What all of them share. Inputs: any shape, strides and alignment. Outputs: a new contiguous
tensor, or ``out``. Called by all ranks in the same order, with the same dtype, counts and options.
Gradients are not recorded. Parameters that they share:

algorithm : str, optional
    A name of the registry, in place of the chooser's pick; equal on all ranks.
launch : Launch, optional
    A launch shape, in place of the algorithm's default; equal on all ranks.
lane : int
    Which of the world's lanes; equal on all ranks.
root : int
    The rank that everything goes to, or comes from; equal on all ranks.

Errors that they share: those of :meth:`worldline.World.all_reduce`. After one that comes from a
wait each element of an output is whole, or NaN; 0 in a dtype that has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.compiler import is_dynamo_compiling

from worldline.eager import eager
from worldline.kernels.registry import Launch
from worldline.run import run

if TYPE_CHECKING:
    from worldline.world import World


def _any(world: World, *arguments: Any, **options: Any) -> torch.Tensor | None:
    return (eager(run) if is_dynamo_compiling() else run)(world, *arguments, **options)


def tensor(world: World, *arguments: Any, **options: Any) -> torch.Tensor:
    """Run a collective that gives every rank a tensor."""
    result = _any(world, *arguments, **options)
    assert result is not None
    return result


def all_gather(
    self: World,
    x: torch.Tensor,
    out: torch.Tensor | None = None,
    algorithm: str | None = None,
    launch: Launch | None = None,
    lane: int = 0,
) -> torch.Tensor:
    """Gather every rank's ``x``, in rank order; every rank gets all, bit for bit.

    Parameters
    ----------
    x : Tensor
        Any dtype but quantized ones; same count on all ranks.
    out : Tensor, optional
        Dtype and device of ``x``, and shape ``(size, *x.shape)``, the default's, or that of ``x``
        with ``size`` times its first dimension. To work in place pass as ``x`` the part of it that
        is this rank's.
    algorithm, launch, lane
        See :mod:`worldline.parts`, also for what is raised.

    Returns
    -------
    Tensor
        ``out``, or the new tensor.
    """
    options = {"algorithm": algorithm, "launch": launch}
    return tensor(self, "all_gather", x, out, lane, **options)


def broadcast(
    self: World,
    x: torch.Tensor,
    out: torch.Tensor | None = None,
    root: int = 0,
    algorithm: str | None = None,
    launch: Launch | None = None,
    lane: int = 0,
) -> torch.Tensor:
    """Give every rank the root's ``x``, bit for bit.

    Parameters
    ----------
    x : Tensor
        Any dtype but quantized ones; same shape on all ranks, of which the root's alone is read.
    out : Tensor, optional
        Like ``x``. To work in place, as torch does, pass ``x`` itself.
    root, algorithm, launch, lane
        See :mod:`worldline.parts`, also for what is raised.

    Returns
    -------
    Tensor
        ``out``, or the new tensor.
    """
    options = {"algorithm": algorithm, "launch": launch}
    return tensor(self, "broadcast", x, out, lane, root=root, **options)


def gather(
    self: World,
    x: torch.Tensor,
    out: torch.Tensor | None = None,
    root: int = 0,
    algorithm: str | None = None,
    launch: Launch | None = None,
    lane: int = 0,
) -> torch.Tensor | None:
    """Gather every rank's ``x`` on the root, in rank order, bit for bit.

    Parameters
    ----------
    x : Tensor
        Any dtype but quantized ones; same count on all ranks.
    out : Tensor, optional
        On the root alone; as of :meth:`all_gather`.
    root, algorithm, launch, lane
        See :mod:`worldline.parts`, also for what is raised.

    Returns
    -------
    Tensor or None
        On the root ``out``, or the new tensor; None elsewhere.
    """
    options = {"algorithm": algorithm, "launch": launch}
    return _any(self, "gather", x, out, lane, root=root, **options)


def scatter(
    self: World,
    x: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    root: int = 0,
    algorithm: str | None = None,
    launch: Launch | None = None,
    lane: int = 0,
) -> torch.Tensor:
    """Give each rank its part of the root's ``x``, bit for bit.

    Parameters
    ----------
    x : Tensor, optional
        On the root: any dtype but quantized ones, and a first dimension that the ranks divide.
        Elsewhere it is not looked at.
    out : Tensor, optional
        Dtype and device of ``x``, and its shape with the first dimension divided by ``size``; or
        without it, where it is ``size``. Needed on every rank but the root.
    root, algorithm, launch, lane
        See :mod:`worldline.parts`, also for what is raised.

    Returns
    -------
    Tensor
        ``out``, or the new tensor.
    """
    options = {"algorithm": algorithm, "launch": launch}
    return tensor(self, "scatter", x, out, lane, root=root, **options)


def all_to_all(
    self: World,
    x: torch.Tensor,
    out: torch.Tensor | None = None,
    algorithm: str | None = None,
    launch: Launch | None = None,
    lane: int = 0,
) -> torch.Tensor:
    """Send part r of ``x`` to rank r, and get every rank's part for this one; bit for bit.

    Parameters
    ----------
    x : Tensor
        Any dtype but quantized ones, and a first dimension that the ranks divide; same shape on
        all ranks.
    out : Tensor, optional
        Like ``x``. To work in place pass ``x`` itself.
    algorithm, launch, lane
        See :mod:`worldline.parts`, also for what is raised.

    Returns
    -------
    Tensor
        ``out``, or the new tensor: part r came from rank r.
    """
    options = {"algorithm": algorithm, "launch": launch}
    return tensor(self, "all_to_all", x, out, lane, **options)


def reduce_scatter(
    self: World,
    x: torch.Tensor,
    out: torch.Tensor | None = None,
    op: str = "sum",
    algorithm: str | None = None,
    launch: Launch | None = None,
    lane: int = 0,
    scale: float | None = None,
) -> torch.Tensor:
    """Reduce ``x`` over all ranks, of which each gets its part: the same bits as of an all-reduce.

    Parameters
    ----------
    x : Tensor
        A dtype that :meth:`all_reduce` takes, and a first dimension that the ranks divide; same
        shape on all ranks.
    out : Tensor, optional
        Dtype and device of ``x``, and its shape with the first dimension divided by ``size``; or
        without it, where it is ``size``. To work in place pass this rank's part of ``x``.
    op, scale
        As of :meth:`all_reduce`.
    algorithm, launch, lane
        See :mod:`worldline.parts`, also for what is raised.

    Returns
    -------
    Tensor
        ``out``, or the new tensor.
    """
    options = {"algorithm": algorithm, "launch": launch, "scale": scale}
    return tensor(self, "reduce_scatter", x, out, lane, op=op, **options)


def reduce(
    self: World,
    x: torch.Tensor,
    out: torch.Tensor | None = None,
    root: int = 0,
    op: str = "sum",
    algorithm: str | None = None,
    launch: Launch | None = None,
    lane: int = 0,
    scale: float | None = None,
) -> torch.Tensor | None:
    """Reduce ``x`` over all ranks, on the root: the same bits as of an all-reduce.

    Parameters
    ----------
    x : Tensor
        A dtype that :meth:`all_reduce` takes; same count on all ranks.
    out : Tensor, optional
        On the root alone; like ``x``, or ``x`` itself.
    op, scale
        As of :meth:`all_reduce`.
    root, algorithm, launch, lane
        See :mod:`worldline.parts`, also for what is raised.

    Returns
    -------
    Tensor or None
        On the root ``out``, or the new tensor; None elsewhere.
    """
    options = {"algorithm": algorithm, "launch": launch, "scale": scale}
    return _any(self, "reduce", x, out, lane, op=op, root=root, **options)
