"""Arguments of the collectives, checked before anything is launched."""

from __future__ import annotations

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
        raise InvalidArgument(argument, str(x.layout), "must be a dense (strided) tensor")
    if not has_memory(x):
        raise InvalidArgument(
            argument, type(x).__name__, "must have memory: not a fake, functional or lazy tensor"
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


def check_writable(out: object) -> None:
    """Refuse what is no tensor with memory to write to."""
    if not isinstance(out, torch.Tensor):
        raise InvalidArgument("out", type(out).__name__, "must be a torch.Tensor")
    if not has_memory(out) or out._is_zerotensor():
        raise InvalidArgument("out", type(out).__name__, "must have memory to write to")


def check_output(x: torch.Tensor, out: torch.Tensor) -> None:
    """Refuse an output that cannot hold a result like ``x``."""
    check_writable(out)
    if (out.shape, out.dtype, out.device) != (x.shape, x.dtype, x.device):
        raise InvalidArgument("out", describe(out), f"must be like x, which is {describe(x)}")
    check_own_elements(out)


def check_own_elements(out: torch.Tensor) -> None:
    """Refuse an output of which two indices share an element."""
    if _overlaps_itself(out):
        raise InvalidArgument("out", describe(out), "must not overlap itself, as expanded ones do")


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


def partly_overlaps(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Say whether two contiguous tensors share memory without being the same."""
    size = x.numel() * x.element_size()
    distance = abs(x.data_ptr() - y.data_ptr())
    return 0 < distance < size


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
        Naming the first argument that differs and every rank's value.
    """
    calls = rendezvous.gather("debug", mine)
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
        "algorithm": algorithm,
        "launch": None if launch is None else [launch.grid, launch.block, launch.launch_point],
        "lane": lane,
    }
