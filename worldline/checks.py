"""Arguments of the collectives, checked before anything is launched."""

from __future__ import annotations

import torch

from worldline.kernels.registry import Launch, Request
from worldline.primitives.bootstrap import Rendezvous
from worldline.primitives.errors import InvalidArgument, MismatchError


def describe(x: torch.Tensor) -> str:
    """Say a tensor's dtype, shape and device in few words."""
    return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)} on {x.device}"


def check_tensor(argument: str, x: object, device_type: str) -> None:
    """Refuse what is not a dense tensor on the world's kind of device."""
    if not isinstance(x, torch.Tensor):
        raise InvalidArgument(argument, type(x).__name__, "must be a torch.Tensor")
    if x.device.type != device_type:
        raise InvalidArgument(
            argument, describe(x), f"must be on a {device_type} device, as this world is"
        )
    if x.layout != torch.strided:
        raise InvalidArgument(argument, str(x.layout), "must be a dense (strided) tensor")


def check_output(x: torch.Tensor, out: object) -> None:
    """Refuse an output that cannot hold the result."""
    if not isinstance(out, torch.Tensor):
        raise InvalidArgument("out", type(out).__name__, "must be a torch.Tensor")
    if (out.shape, out.dtype, out.device) != (x.shape, x.dtype, x.device):
        raise InvalidArgument("out", describe(out), f"must be like x, which is {describe(x)}")
    if _overlaps_itself(out):
        raise InvalidArgument("out", describe(out), "must not overlap itself (expanded tensor)")


def _overlaps_itself(x: torch.Tensor) -> bool:
    """Say whether two indices of a tensor may share an element."""
    extent = 0
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1:
            if stride <= extent:
                return True
            extent += (size - 1) * stride
    return False


def partly_overlaps(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Say whether two contiguous tensors share memory without being the same."""
    size = x.numel() * x.element_size()
    distance = abs(x.data_ptr() - y.data_ptr())
    return 0 < distance < size


def check_match(
    rendezvous: Rendezvous, request: Request, algorithm: str | None, launch: Launch | None
) -> None:
    """Compare a call's arguments between ranks; collective.

    Raises
    ------
    MismatchError
        Naming the argument and every rank's value.
    """
    mine = {
        "collective": request.collective,
        "dtype": str(request.dtype).removeprefix("torch."),
        "op": request.op,
        "count": request.count,
        "algorithm": algorithm,
        "launch": None if launch is None else [launch.grid, launch.block],
    }
    calls = rendezvous.gather("debug", mine)
    for argument in mine:
        values = [call[argument] for call in calls]
        if any(value != values[0] for value in values):
            listed = ", ".join(f"rank {rank}: {value}" for rank, value in enumerate(values))
            raise MismatchError(
                f"{request.collective}: ranks differ in {argument} ({listed}); it must be equal "
                f"on all ranks"
            )
