"""One call of a collective, from its arguments to its output: the same path for every one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from worldline import checks
from worldline.autotune.choose import Choice, choose
from worldline.kernels.moves import spoilt_byte
from worldline.kernels.registry import Launch, Request
from worldline.modes import check_modes
from worldline.plans import abandon
from worldline.primitives.errors import (
    InvalidArgument,
    UnsupportedError,
    WorldClosed,
    WorldlineError,
)

if TYPE_CHECKING:
    from worldline.primitives.lane import Lane
    from worldline.world import World


def spoil_bytes(out: torch.Tensor) -> None:
    """Fill a contiguous output with NaN, or 0 where its dtype has none."""
    out.view(-1).view(torch.uint8).fill_(spoilt_byte(out.dtype))


@dataclass(frozen=True)
class Form:
    """What a collective's output has to do with its input.

    Parameters
    ----------
    collective : str
        Its name in the registry.
    shapes : callable
        From the number of ranks and the input to the shapes that an output may have; a new one
        gets the first.
    place : callable
        From the request and the rank to where the input lies in place: bytes from the output's
        start. None where it never may.
    spoil : callable
        Fills a contiguous output whose call has failed.
    """

    collective: str
    shapes: Callable[[int, torch.Tensor], Sequence[tuple[int, ...]]]
    place: Callable[[Request, int], int | None]
    spoil: Callable[[torch.Tensor], object] = spoil_bytes


def run(
    world: World,
    form: Form,
    x: torch.Tensor,
    out: torch.Tensor | None,
    lane: int,
    *,
    op: str = "",
    algorithm: str | None = None,
    launch: Launch | None = None,
) -> torch.Tensor:
    """Check a call, plan it, run it and bring the result to where it belongs.

    Parameters
    ----------
    world : World
        Where.
    form : Form
        Of the collective.
    x, out, lane, op, algorithm, launch
        The call's arguments; ``op`` is empty for a collective that has none.

    Returns
    -------
    Tensor
        ``out``, or a new tensor.
    """
    with refusals_told(world, form.collective):
        chosen = world._lane(lane)
        check_modes(form.collective)
        request, choice = _choose(world, form, x, out, op, algorithm, launch)
    chosen.check()
    if world.debug:
        chosen.look()
        signature = checks.signature(request, algorithm, launch, chosen.index)
        checks.check_match(world.rendezvous, signature)
    options = (form.collective, op, algorithm, launch, chosen.index)
    with torch.no_grad(), world._on_device():
        if out is None:
            shape = form.shapes(world.size, x)[0]
            result = torch.empty(shape, dtype=x.dtype, device=x.device)
        else:
            result = out
        direct = result
        if not result.is_contiguous() or result.is_neg() or result.is_conj():
            direct = torch.empty(result.shape, dtype=x.dtype, device=x.device)
        source = checks.plain(x)
        if not (checks.has_memory(source) and checks.has_memory(direct)):
            raise UnsupportedError(
                f"{form.collective}: a mode is active in which new tensors have no memory"
            )
        here = source.data_ptr() - direct.data_ptr()
        if here != form.place(request, world.rank) and checks.overlap(source, direct):
            source = source.clone()
        made = world._plans.of(x, options, request, choice, chosen)

        def spoil() -> None:
            form.spoil(direct)
            if direct is not result:
                # It must not hide why the call failed.
                with suppress(Exception):
                    result.copy_(direct)

        with launching(chosen, form.collective, spoil):
            made.run(source.data_ptr(), direct.data_ptr())
        if direct is not result:
            result.copy_(direct)
        elif not result.is_inference():
            # Autograd has to know that the memory changed, as for torch's own operations.
            torch.autograd.graph.increment_version(result)
    return result


def _choose(
    world: World,
    form: Form,
    x: torch.Tensor,
    out: torch.Tensor | None,
    op: str,
    algorithm: str | None,
    launch: Launch | None,
) -> tuple[Request, Choice]:
    """Check a call's arguments and choose its algorithm."""
    checks.check_tensor("x", x, world.device)
    if out is not None:
        checks.check_output(x, out, form.shapes(world.size, x))
    if not isinstance(op, str):
        raise InvalidArgument("op", op, "must be a string, such as 'sum'")
    if launch is not None and not isinstance(launch, Launch):
        raise InvalidArgument("launch", launch, "must be a worldline.Launch")
    request = world.request(form.collective, x, op)
    return request, choose(request, algorithm, launch)


@contextmanager
def launching(
    lane: Lane, operation: str, spoil: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Launch in the body: raise what the lane reports, and kill it if this rank leaves it midway.

    Parameters
    ----------
    lane : Lane
        Where.
    operation : str
        The collective.
    spoil : callable
        Does away with what a failed operation has written.
    """
    # What this refuses has sent nothing: no lane dies of it, and the output is as it was.
    with lane.provider.alone():
        try:
            yield
            lane.check()
        except BaseException:
            abandon(lane, operation)
            spoil()
            raise


@contextmanager
def refusals_told(world: World, collective: str) -> Iterator[None]:
    """In debug mode, tell the others what this rank refuses: they would wait for its call."""
    try:
        yield
    except WorldClosed:
        raise  # It has nobody to tell.
    except WorldlineError as error:
        if world.debug:
            refused = {"collective": collective, "refused": str(error)}
            checks.check_match(world.rendezvous, refused)
        raise
