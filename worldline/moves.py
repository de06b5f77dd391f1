"""Collectives that move data and change no bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.compiler import is_dynamo_compiling

from worldline import checks
from worldline.autotune.choose import Choice, choose
from worldline.eager import eager
from worldline.kernels.moves import spoilt_byte
from worldline.kernels.registry import Request
from worldline.primitives.errors import InvalidArgument, WorldlineError

if TYPE_CHECKING:
    from worldline.world import World


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
        When no algorithm serves the dtype; or when a kernel that is not loaded yet is asked for
        inside a CUDA graph's capture.
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
        After ``close``.
    """
    if is_dynamo_compiling():
        return eager(_move)(self, "all_gather", x, out, algorithm, lane)
    return _move(self, "all_gather", x, out, algorithm, lane)


def _move(
    world: World,
    collective: str,
    x: torch.Tensor,
    out: torch.Tensor | None,
    algorithm: str | None,
    lane_index: int,
) -> torch.Tensor:
    lane = world._lane(lane_index)
    try:
        request, choice = _choose(world, collective, x, out, algorithm)
    except WorldlineError as error:
        if world.debug:
            refused = {"collective": collective, "refused": str(error)}
            checks.check_match(world.rendezvous, refused)
        raise
    lane.check()
    if world.debug:
        lane.look()
        signature = checks.signature(request, algorithm, None, lane_index)
        checks.check_match(world.rendezvous, signature)
    with torch.no_grad(), world._on_device():
        made = world._plans.of(x, (collective, algorithm, lane_index), request, choice, lane)
        shape = (world.size, *x.shape)
        result = torch.empty(shape, dtype=x.dtype, device=x.device) if out is None else out
        direct = result
        if not result.is_contiguous() or result.is_neg() or result.is_conj():
            direct = torch.empty(result.shape, dtype=x.dtype, device=x.device)
        source = checks.plain(x)
        own = direct.data_ptr() + world.rank * request.nbytes
        if source.data_ptr() != own and checks.overlap(source, direct):
            source = source.clone()
        try:
            with world._call(collective, lane):
                made.run(source.data_ptr(), direct.data_ptr())
        except BaseException:
            direct.view(torch.uint8).fill_(spoilt_byte(x.dtype))
            raise
        finally:
            if direct is not result:
                result.copy_(direct)
            elif not result.is_inference():
                # Autograd has to know that the memory changed, as for torch's own operations.
                torch.autograd.graph.increment_version(result)
    return result


def _choose(
    world: World, collective: str, x: torch.Tensor, out: torch.Tensor | None, algorithm: str | None
) -> tuple[Request, Choice]:
    """Check a call's arguments and choose its algorithm."""
    checks.check_tensor("x", x, world.device)
    if out is not None:
        shapes = [(world.size, *x.shape)]
        if x.dim():
            shapes.append((world.size * x.shape[0], *x.shape[1:]))
        _check_output(x, out, shapes)
    request = world.request(collective, x)
    return request, choose(request, algorithm)


def _check_output(x: torch.Tensor, out: object, shapes: list[tuple[int, ...]]) -> None:
    """Refuse an output that cannot hold the result."""
    checks.check_writable(out)
    assert isinstance(out, torch.Tensor)
    if (out.dtype, out.device) != (x.dtype, x.device) or tuple(out.shape) not in shapes:
        wanted = " or ".join(str(list(shape)) for shape in shapes)
        rule = f"must have shape {wanted} and be like x otherwise, which is {checks.describe(x)}"
        raise InvalidArgument("out", checks.describe(out), rule)
    checks.check_own_elements(out)
