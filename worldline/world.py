"""`World`: ranks that run collectives together."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import torch
import torch.distributed as dist

from worldline import checks
from worldline.autotune.choose import Choice, choose
from worldline.explanation import Explanation, explain
from worldline.kernels import launch as kernel_launch
from worldline.kernels.registry import Launch, Request
from worldline.primitives.arguments import seconds
from worldline.primitives.bootstrap import Rendezvous
from worldline.primitives.errors import InvalidArgument, WorldClosed, WorldlineError
from worldline.primitives.lane import Lane

F = TypeVar("F", bound=Callable[..., Any])


def eager(fn: F) -> F:
    """Keep torch.compile out of a call: it would trace into the launch.

    Dynamo is asked only where something has imported it; importing it takes seconds.
    """
    if "torch._dynamo" in sys.modules:
        return torch._dynamo.disable(fn)
    return fn


class World:
    """Ranks that run collectives together; made by :func:`worldline.init` or ``spawn``.

    Collectives are called by all ranks in the same order with the same dtype, count and options.
    A world is used by one thread at a time. Close it, or use it as a context manager.

    Parameters
    ----------
    rendezvous : Rendezvous
        The ranks' meeting place on the host side.
    lane : Lane
        The arena and its order of operations.
    debug : bool
        Compare every call's arguments between ranks first (slow).

    Attributes
    ----------
    rank, size : int
        This rank and the number of ranks.
    provider : str
        Where symmetric memory comes from, such as ``"host"``.
    timeout : float
        Deadline of each device-side wait, in seconds.
    """

    def __init__(self, rendezvous: Rendezvous, lane: Lane, debug: bool) -> None:
        self.rank, self.size = rendezvous.rank, rendezvous.size
        self.provider = lane.provider.name
        self.timeout = lane.timeout
        self.debug = debug
        self._rendezvous = rendezvous
        self._lane: Lane | None = lane

    def __repr__(self) -> str:
        state = "closed" if self._lane is None else self.provider
        return f"<World rank {self.rank} of {self.size}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._lane is None

    @property
    def lane(self) -> Lane:
        """The world's lane.

        Raises
        ------
        WorldClosed
            After :meth:`close`.
        """
        if self._lane is None:
            raise WorldClosed("this world is closed")
        return self._lane

    @property
    def store(self) -> dist.Store:
        """A corner of the ranks' store that is this world's own."""
        return dist.PrefixStore(f"{self._rendezvous.prefix}/user", self._rendezvous.store)

    def request(self, collective: str, x: torch.Tensor, op: str = "sum") -> Request:
        """Describe a call by what is equal on all ranks."""
        return Request(collective, x.dtype, op, x.numel(), self.size, x.device.type)

    def all_reduce(
        self,
        x: torch.Tensor,
        out: torch.Tensor | None = None,
        op: str = "sum",
        algorithm: str | None = None,
        launch: Launch | None = None,
    ) -> torch.Tensor:
        """Reduce ``x`` over all ranks; every rank gets the result, the same to the bit.

        The sum is taken in rank order with a float32 accumulator and rounded once; the choice of
        algorithm never changes a bit. Gradients are not recorded.

        Parameters
        ----------
        x : Tensor
            float32, float16 or bfloat16; any shape, strides and alignment; same count on all ranks.
        out : Tensor, optional
            Where to write; same shape, dtype and device as ``x``. Pass ``x`` itself to work in
            place. A new contiguous tensor by default.
        op : str
            ``"sum"``.
        algorithm : str, optional
            A name of the registry, in place of the chooser's pick; equal on all ranks.
        launch : Launch, optional
            A launch shape, in place of the algorithm's default; equal on all ranks.

        Returns
        -------
        Tensor
            ``out``, or the new tensor.

        Raises
        ------
        InvalidArgument
            For an argument that breaks a rule.
        UnsupportedError
            When no algorithm serves the dtype or op, with each one's reason.
        CollectiveTimeout
            When a wait passed its deadline, here or on a peer; the output is then all NaN.
        CollectiveAborted
            When another rank's call ended in an exception; the output is then all NaN.
        MismatchError
            In debug mode, when ranks differ in their arguments.
        WorldClosed
            After :meth:`close`.
        """
        return eager(self._all_reduce)(x, out, op, algorithm, launch)

    def _all_reduce(
        self,
        x: torch.Tensor,
        out: torch.Tensor | None,
        op: str,
        algorithm: str | None,
        launch: Launch | None,
    ) -> torch.Tensor:
        lane = self.lane
        try:
            request, choice = self._plan(x, out, op, algorithm, launch)
        except WorldlineError as error:
            if self.debug:
                refused = {"collective": "all_reduce", "refused": str(error)}
                checks.check_match(self._rendezvous, refused)
            raise
        lane.check()
        if self.debug:
            checks.check_match(self._rendezvous, checks.signature(request, algorithm, launch))
        result = torch.empty(x.shape, dtype=x.dtype, device=x.device) if out is None else out
        with torch.no_grad():
            direct = result
            if not result.is_contiguous() or result.is_neg():
                direct = torch.empty(x.shape, dtype=x.dtype, device=x.device)
            source = checks.plain(x)
            if checks.partly_overlaps(source, direct):
                source = source.clone()
            try:
                with self._call("all_reduce"):
                    kernel_launch.run(
                        choice.algorithm, request, lane, source, direct, choice.launch
                    )
            except BaseException:
                direct.fill_(float("nan"))
                raise
            finally:
                if direct is not result:
                    result.copy_(direct)
                elif not result.is_inference():
                    # Autograd has to know that the memory changed, as for torch's own operations.
                    torch.autograd.graph.increment_version(result)
        return result

    def _plan(
        self,
        x: torch.Tensor,
        out: torch.Tensor | None,
        op: str,
        algorithm: str | None,
        launch: Launch | None,
    ) -> tuple[Request, Choice]:
        """Check a call's arguments and choose its algorithm."""
        checks.check_tensor("x", x, self.lane.provider.device_type)
        if out is not None:
            checks.check_output(x, out)
        if launch is not None and not isinstance(launch, Launch):
            raise InvalidArgument("launch", launch, "must be a worldline.Launch")
        request = self.request("all_reduce", x, op)
        return request, choose(request, algorithm, launch)

    @contextmanager
    def _call(self, operation: str) -> Iterator[None]:
        """Run a launch: raise what the lane reports, and kill the lane if this rank leaves it."""
        lane = self.lane
        try:
            yield
            lane.check()
        except BaseException:
            lane.abort(operation)
            raise

    def barrier(self) -> None:
        """Wait until every rank has called this.

        Raises
        ------
        CollectiveTimeout
            When a rank did not come within the deadline.
        MismatchError
            In debug mode, when another rank calls something else.
        WorldClosed
            After :meth:`close`.
        """
        eager(self._barrier)()

    def _barrier(self) -> None:
        lane = self.lane
        lane.check()
        if self.debug:
            checks.check_match(self._rendezvous, {"collective": "barrier", "refused": None})
        with self._call("barrier"):
            kernel_launch.run_barrier(lane)

    def explain(self, collective: str, x: torch.Tensor, op: str = "sum") -> Explanation:
        """Say what a call would run, why, what was refused, and the arena's map.

        Raises
        ------
        InvalidArgument
            For a tensor or a collective that is none.
        UnsupportedError
            When nothing serves the call, with each algorithm's reason.
        """
        lane = self.lane
        checks.check_tensor("x", x, lane.provider.device_type)
        request = self.request(collective, x, op)
        return explain(request, choose(request), lane.arena.layout, self.provider)

    def recover(self, timeout: float | None = None) -> None:
        """Make a world whose lane is dead usable again; collective.

        With a rank gone this fails: make a new world of the survivors, with
        ``worldline.init(ranks=...)``.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait for the other ranks, in place of the world's own.

        Raises
        ------
        RendezvousTimeout
            Naming the ranks that did not come.
        """
        lane = self.lane
        limit = None if timeout is None else seconds("timeout", timeout)
        lane.recover(self._rendezvous, limit)

    def close(self) -> None:
        """Give the memory back. Not collective; a second call does nothing."""
        if self._lane is not None:
            self._lane.close()
            self._lane = None
