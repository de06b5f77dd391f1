"""Arguments of the collectives, checked before anything is launched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses import FakeTensor

from worldline.kernels.reference import CANONICAL_NAN, bits
from worldline.kernels.registry import Launch, Request, dtype_name
from worldline.primitives.bootstrap import Rendezvous
from worldline.primitives.errors import InvalidArgument, MismatchError


def describe(x: torch.Tensor) -> str:
    """Say a tensor's dtype, shape and device in few words."""
    return f"{dtype_name(x.dtype)}{list(x.shape)} on {x.device}"


def check_tensor(argument: str, x: object, device: torch.device) -> None:
    """Refuse what is not a dense tensor with memory of its own on the world's device."""
    if not isinstance(x, torch.Tensor):
        raise InvalidArgument(argument, type(x).__name__, "must be a torch.Tensor")
    if x.device != device:
        raise InvalidArgument(argument, describe(x), f"must be on {device}, as this world is")
    if x.layout != torch.strided or x.is_nested:
        kind = "nested" if x.is_nested else str(x.layout)
        raise InvalidArgument(argument, kind, "must be a dense (strided) tensor, and not nested")
    if not has_memory(x):
        raise InvalidArgument(
            argument,
            type(x).__name__,
            "must have memory of its own: no wrapper (DTensor, vmap, fake) and no freed storage; "
            "pass the local tensor",
        )


def has_memory(x: torch.Tensor) -> bool:
    """Say whether a tensor's elements lie at an address."""
    if isinstance(x, FakeTensor):
        return False
    if x._is_zerotensor():
        return True
    try:
        return x.numel() == 0 or x.data_ptr() != 0
    except RuntimeError:
        return False


def plain(x: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor whose memory holds what the tensor means.

    A tensor may carry its sign, that it is conjugate or all zero, as a mark that raw addresses do
    not show.
    """
    return (x.clone() if x._is_zerotensor() else x.resolve_conj().resolve_neg()).contiguous()


def check_output(x: torch.Tensor, out: torch.Tensor, shapes: Sequence[tuple[int, ...]]) -> None:
    """Refuse an output that cannot hold a result of one of these shapes, otherwise like ``x``."""
    check_tensor("out", out, x.device)
    if out._is_zerotensor():
        raise InvalidArgument("out", describe(out), "must have memory to write to")
    if out.dtype != x.dtype or tuple(out.shape) not in shapes:
        rule = f"must be like x, which is {describe(x)}"
        if list(shapes) != [x.shape]:
            wanted = " or ".join(str(list(shape)) for shape in shapes)
            rule = f"must have shape {wanted} and be like x otherwise, which is {describe(x)}"
        raise InvalidArgument("out", describe(out), rule)
    if _overlaps_itself(out):
        raise InvalidArgument("out", describe(out), "must not overlap itself, as expanded ones do")
    if out.is_inference() and not torch.is_inference_mode_enabled():
        rule = "was made in inference mode, and torch lets nobody write to it outside of that"
        raise InvalidArgument("out", describe(out), rule)


def _overlaps_itself(x: torch.Tensor) -> bool:
    """Say whether two indices of a tensor share an element."""
    if x.numel() < 2:
        return False
    steps = sorted(step for step in zip(x.stride(), x.shape, strict=True) if step[1] > 1)
    extent, nested = 0, True
    for stride, size in steps:
        nested = nested and stride > extent
        extent += (size - 1) * stride
    if nested:
        return False
    if steps[0][0] == 0 or x.numel() > extent + 1:
        return True
    # Dimensions that interleave, as only as_strided() makes them: try every element.
    touched = torch.zeros(extent + 1, dtype=torch.bool, device="cpu")
    touched.as_strided(x.shape, x.stride()).fill_(True)
    return int(touched.count_nonzero()) < x.numel()


def overlap(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Say whether two contiguous tensors share memory."""
    x_size, y_size = (z.numel() * z.element_size() for z in (x, y))
    return -x_size < x.data_ptr() - y.data_ptr() < y_size


def check_scale(scale: object, op: str, dtype: torch.dtype) -> float:
    """Return a factor as a float; refuse what is none, and what cannot be scaled."""
    if isinstance(scale, bool) or not isinstance(scale, int | float):
        raise InvalidArgument("scale", scale, "must be a float, or None")
    if op != "sum":
        raise InvalidArgument("scale", scale, f"must be None unless op is 'sum'; it is {op!r}")
    if not dtype.is_floating_point:
        rule = f"must be None unless x is of floats; it is {dtype_name(dtype)}"
        raise InvalidArgument("scale", scale, rule)
    try:
        return float(scale)
    except OverflowError as error:
        raise InvalidArgument("scale", scale, "must be a float, or None") from error


def spoil(x: torch.Tensor) -> None:
    """Fill the contiguous output of a call that failed as its kernels would."""
    bits(x).fill_(CANONICAL_NAN.get(x.dtype, 0))


def check_match(rendezvous: Rendezvous, mine: dict[str, Any]) -> None:
    """Compare a call's arguments between ranks; collective.

    Parameters
    ----------
    rendezvous : Rendezvous
        The ranks' meeting place.
    mine : dict
        Plain data, such as :func:`signature` gives.

    Raises
    ------
    MismatchError
        Naming the ranks that refuse their arguments where others do not, else the first argument
        that differs and every rank's value.
    """
    calls = rendezvous.gather("debug", mine)
    refused = {rank: call["refused"] for rank, call in enumerate(calls) if call["refused"]}
    if len(refused) == len(calls):
        return  # Each rank raises its own reason.
    if refused and len({call["collective"] for call in calls}) == 1:
        reasons = "; ".join(
            f"rank {rank} refused its arguments: {reason}" for rank, reason in refused.items()
        )
        raise MismatchError(f"{mine['collective']}: {reasons}; the others did not")
    for argument in mine:
        values = [call.get(argument) for call in calls]
        if any(value != values[0] for value in values):
            listed = ", ".join(f"rank {rank}: {value}" for rank, value in enumerate(values))
            raise MismatchError(
                f"{mine['collective']}: ranks differ in {argument} ({listed}); it must be equal "
                f"on all ranks"
            )


def signature(
    request: Request, algorithm: str | None, launch: Launch | None, lane: int
) -> dict[str, Any]:
    """Return what must be equal on all ranks of a call, as plain data."""
    return {
        "collective": request.collective,
        "refused": None,
        "dtype": dtype_name(request.dtype),
        "op": request.op,
        # In words: a NaN equals nothing.
        "scale": None if request.scale is None else repr(request.scale),
        "count": request.count,
        "root": request.root,
        "algorithm": algorithm,
        "launch": None if launch is None else [launch.grid, launch.block, launch.launch_point],
        "lane": lane,
    }
