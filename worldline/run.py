"""One call of a collective, from its arguments to its output: the same path for every one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from worldline import checks
from worldline.autotune.choose import Choice, choose
from worldline.kernels.parts import Rule, rule_of, spoilt_byte
from worldline.kernels.reference import CANONICAL_NAN, bits
from worldline.kernels.registry import Launch, Request
from worldline.modes import check_modes
from worldline.plans import abandon
from worldline.primitives.arguments import whole_number
from worldline.primitives.errors import (
    InvalidArgument,
    UnsupportedError,
    WorldClosed,
    WorldlineError,
)

if TYPE_CHECKING:
    from worldline.primitives.lane import Lane
    from worldline.world import World


def run(
    world: World,
    collective: str,
    x: torch.Tensor | None,
    out: torch.Tensor | None,
    lane: int,
    *,
    op: str = "",
    root: int = 0,
    scale: float | None = None,
    algorithm: str | None = None,
    launch: Launch | None = None,
) -> torch.Tensor | None:
    """Check a call, plan it, run it and bring the result to where it belongs.

    Parameters
    ----------
    world : World
        Where.
    collective : str
        Its name in the registry.
    x, out, lane, op, root, scale, algorithm, launch
        The call's arguments; ``op`` is empty for a collective that has none.

    Returns
    -------
    Tensor or None
        ``out``, or a new tensor; None on a rank that gets nothing.
    """
    with refusals_told(world, collective):
        chosen = world._lane(lane)
        check_modes(collective)
        shape, request, choice = _choose(
            world, collective, x, out, op, root, scale, algorithm, launch
        )
    chosen.check()
    if world.debug:
        chosen.look()
        signature = checks.signature(request, algorithm, launch, chosen.index)
        checks.check_match(world.rendezvous, signature)
    like = out if x is None else x
    assert like is not None
    options = (collective, op, request.scale, root, algorithm, launch, chosen.index)
    with torch.no_grad(), world._on_device():
        result = out
        if out is None and shape is not None:
            result = torch.empty(shape, dtype=request.dtype, device=world.device)
        direct = result
        if result is not None and (
            not result.is_contiguous() or result.is_neg() or result.is_conj()
        ):
            direct = torch.empty(result.shape, dtype=result.dtype, device=result.device)
        source = None if x is None else checks.plain(x)
        if not all(checks.has_memory(y) for y in (source, direct) if y is not None):
            raise UnsupportedError(
                f"{collective}: a mode is active in which new tensors have no memory"
            )
        if source is not None and direct is not None and _collides(request, world, source, direct):
            source = source.clone()
        made = world._plans.of(like, options, request, choice, chosen)

        def spoil() -> None:
            if direct is None:
                return
            _spoil(direct, op)
            if direct is not result and result is not None:
                # It must not hide why the call failed.
                with suppress(Exception):
                    result.copy_(direct)

        with launching(chosen, collective, spoil):
            made.run(*(0 if y is None else y.data_ptr() for y in (source, direct)))
        if result is not None and direct is not None:
            if direct is not result:
                result.copy_(direct)
            elif not result.is_inference():
                # Autograd has to know that the memory changed, as for torch's own operations.
                torch.autograd.graph.increment_version(result)
    return result


def _spoil(out: torch.Tensor, op: str) -> None:
    """Fill a contiguous output with NaN, or 0 where its dtype has none."""
    if op:
        bits(out).fill_(CANONICAL_NAN.get(out.dtype, 0))
    else:
        out.view(-1).view(torch.uint8).fill_(spoilt_byte(out.dtype))


def _collides(request: Request, world: World, source: torch.Tensor, direct: torch.Tensor) -> bool:
    """Say whether an output shares memory with an input other than in place."""
    rule = rule_of(request.collective)
    own = request.part * request.dtype.itemsize * world.rank
    begins = source.data_ptr() + own * (rule.spread and not rule.gathered)
    lies = direct.data_ptr() + own * (rule.gathered and not rule.spread)
    return begins != lies and checks.overlap(source, direct)


def _choose(
    world: World,
    collective: str,
    x: torch.Tensor | None,
    out: torch.Tensor | None,
    op: str,
    root: int,
    scale: float | None,
    algorithm: str | None,
    launch: Launch | None,
) -> tuple[tuple[int, ...] | None, Request, Choice]:
    """Check a call's arguments; return its output's shape here, the request and its algorithm."""
    rule = rule_of(collective)
    if rule.rooted:
        root = whole_number("root", root, 0, world.size - 1)
    gives = not rule.from_root or world.rank == root
    takes = not rule.to_root or world.rank == root
    if x is not None or gives:
        checks.check_tensor("x", x, world.device)
    if out is not None and not takes:
        told = checks.describe(out) if isinstance(out, torch.Tensor) else out
        raise InvalidArgument("out", told, f"must be None but on the root, rank {root}")
    if x is None or (rule.spread and not gives):
        # Of a scatter: what another rank gets says what the root has.
        checks.check_tensor("out", out, world.device)
        assert out is not None
        like, count, shapes = out, out.numel() * world.size, [tuple(out.shape)]
    else:
        like, count, shapes = x, x.numel(), _shapes(x, world.size, rule)
    if out is not None:
        checks.check_output(like, out, shapes)
    if not isinstance(op, str):
        raise InvalidArgument("op", op, "must be a string, such as 'sum'")
    if launch is not None and not isinstance(launch, Launch):
        raise InvalidArgument("launch", launch, "must be a worldline.Launch")
    request = replace(world.request(collective, like, op), count=count, root=root)
    if scale is not None:
        request = replace(request, scale=checks.check_scale(scale, op, like.dtype))
    return shapes[0] if takes else None, request, choose(request, algorithm, launch)


def _shapes(x: torch.Tensor, size: int, rule: Rule) -> list[tuple[int, ...]]:
    """List the shapes that an output may have, the default first."""
    shape = tuple(x.shape)
    if rule.spread and (not shape or shape[0] % size):
        ways = f"must have a first dimension that {size} ranks divide"
        raise InvalidArgument("x", checks.describe(x), ways)
    if rule.spread == rule.gathered:
        return [shape]
    if rule.spread:
        shapes = [(shape[0] // size, *shape[1:])]
        return [*shapes, shape[1:]] if shape[0] == size else shapes
    shapes = [(size, *shape)]
    return [*shapes, (size * shape[0], *shape[1:])] if shape else shapes


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
