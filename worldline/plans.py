"""The calls of a world that are planned already, and the short way to run one again."""

from __future__ import annotations

import os
import weakref
from typing import Any

import torch

from worldline.autotune.choose import Choice
from worldline.kernels.launch import Plan, plan
from worldline.kernels.loading import Loader
from worldline.kernels.registry import Request
from worldline.modes import plain
from worldline.primitives.lane import Lane

_MOST = 4096
_everybodys: weakref.WeakSet[Plans] = weakref.WeakSet()


class Plans:
    """Plans of one world, by tensor and options.

    Parameters
    ----------
    loader : Loader
        What has been loaded for the world.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._known: dict[tuple[Any, ...], tuple[Plan, Lane]] = {}
        _everybodys.add(self)

    @staticmethod
    def _key(x: torch.Tensor, options: tuple[Any, ...]) -> tuple[Any, ...]:
        collective, op, scale, *rest = options
        if type(scale) is float:
            # Zeros of either sign are equal, and what is no number equals nothing.
            scale = (scale.hex(),)
        return x.numel(), x.dtype, x.device, collective, op, scale, *rest

    def of(
        self,
        x: torch.Tensor,
        options: tuple[Any, ...],
        request: Request,
        choice: Choice,
        lane: Lane,
    ) -> Plan:
        """Return a checked call's plan; collective the first time that its kernel is needed."""
        key = self._key(x, options)
        if key in self._known:
            return self._known[key][0]
        made = self._loader.ensure(
            choice.algorithm.variant(request, choice.launch),
            lambda: plan(choice.algorithm, request, lane, choice.launch, self._loader.cuda),
        )
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[key] = (made, lane)
        return made

    def again(self, x: torch.Tensor, options: tuple[Any, ...]) -> torch.Tensor | None:
        """Run a call that has a plan, at the least cost to the host; None where it must be checked.

        What is unusual about a call is the checked path's matter, and so is every error.

        Parameters
        ----------
        x : Tensor
            The input.
        options : tuple
            The collective and the call's further arguments: op and scale next, its lane's index
            last.
        """
        if not plain():
            return None
        try:
            known = self._known.get(self._key(x, options))
            if known is None or type(options[-1]) is not int or not known[1].alive:
                return None
            # A tensor that wraps another, or stands for zeroes, has no memory of its own.
            source = x.data_ptr()
            if not source or not x.is_contiguous() or x.is_neg():
                return None
        except (TypeError, RuntimeError):
            return None
        result = torch.empty_like(x)
        target = result.data_ptr()
        if not target:
            return None
        try:
            known[0].run(source, target)
        except BaseException:
            abandon(known[1], options[0])
            raise
        return result

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()


def _forget() -> None:
    """Leave no plan to a fork: it is no rank. Cheaper than to ask for the process at every call."""
    for plans in list(_everybodys):
        plans.clear()


os.register_at_fork(after_in_child=_forget)


def abandon(lane: Lane, operation: str) -> None:
    """Kill a lane whose operation this rank left in the middle; in a capture nothing has run."""
    if lane.provider.device_type != "cuda" or not torch.cuda.is_current_stream_capturing():
        lane.abort(operation)
