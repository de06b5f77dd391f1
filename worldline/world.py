"""`World`: ranks that run collectives together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Self

import torch
import torch.distributed as dist
from torch.compiler import is_dynamo_compiling

from worldline import checks, parts
from worldline.autotune.choose import choose
from worldline.eager import eager
from worldline.explanation import Explanation, explain
from worldline.kernels.launch import BarrierPlan, largest_grid
from worldline.kernels.loading import Loader
from worldline.kernels.parts import default_op
from worldline.kernels.registry import Launch, Request
from worldline.modes import check_modes
from worldline.plans import Plans
from worldline.primitives.arguments import seconds, whole_number
from worldline.primitives.bootstrap import Rendezvous
from worldline.primitives.errors import InvalidArgument, WorldClosed
from worldline.primitives.lane import Lane, recover
from worldline.primitives.watchdog import Watchdog
from worldline.run import launching, refusals_told


class World:
    """Ranks that run collectives together; made by :func:`worldline.init` or ``spawn``.

    Collectives are called by all ranks in the same order with the same dtype, count and options.
    A world is used by one thread at a time. Close it, or use it as a context manager.

    On a GPU a call is an operation of the current stream, as torch's own are: it returns once it is
    launched, and may be captured in a CUDA graph. Calls of one lane follow each other, on one
    stream or on streams that events order; calls that are to overlap use different lanes.

    Parameters
    ----------
    rendezvous : Rendezvous
        The ranks' meeting place on the host side.
    lanes : sequence of Lane
        Arenas, each with its order of operations.
    loader : Loader
        What has been loaded for them.
    debug : bool
        Compare every call's arguments between ranks first (slow).
    watchdog : Watchdog, optional
        What watches the lanes; stopped by :meth:`close`.

    Attributes
    ----------
    rank, size : int
        This rank and the number of ranks.
    provider : str
        Where symmetric memory comes from, such as ``"host"``.
    device : torch.device
        Where this rank's tensors are.
    timeout : float
        Deadline of each device-side wait, in seconds.
    torn : str
        Why a line of 128 bytes may arrive in pieces here, which keeps LL128 out; empty where it is
        known to arrive whole.
    torn_adds : str
        The same of what is added to a line, which keeps LL128-atomic out.
    """

    def __init__(
        self,
        rendezvous: Rendezvous,
        lanes: Sequence[Lane],
        loader: Loader,
        debug: bool,
        watchdog: Watchdog | None = None,
    ) -> None:
        self.rank, self.size = rendezvous.rank, rendezvous.size
        self.provider = lanes[0].provider.name
        self.device = lanes[0].provider.device()
        self.timeout = lanes[0].timeout
        self.debug = debug
        self._rendezvous = rendezvous
        self._lanes: tuple[Lane, ...] = tuple(lanes)
        self._loader, self._watchdog = loader, watchdog
        self._plans = Plans(loader)
        self._process = os.getpid()
        self.torn = self.torn_adds = ""

    def __repr__(self) -> str:
        state = "closed" if self.closed else self.provider
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
        return not self._lanes

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The world's lanes.

        Raises
        ------
        WorldClosed
            After :meth:`close`, and in a fork of the world's process.
        """
        if not self._lanes:
            raise WorldClosed("this world is closed")
        if os.getpid() != self._process:
            raise WorldClosed(
                f"this world is one of process {self._process}: its fork, process {os.getpid()}, "
                f"is no rank of it"
            )
        return self._lanes

    @property
    def lane(self) -> Lane:
        """The first lane."""
        return self.lanes[0]

    @property
    def rendezvous(self) -> Rendezvous:
        """The ranks' meeting place on the host side."""
        return self._rendezvous

    @property
    def store(self) -> dist.Store:
        """A corner of the ranks' store that is this world's own."""
        return dist.PrefixStore(f"{self._rendezvous.prefix}/user", self._rendezvous.store)

    def request(self, collective: str, x: torch.Tensor, op: str | None = None) -> Request:
        """Describe a call by what is equal on all ranks."""
        op = default_op(collective) if op is None else op
        torn = (self.torn, self.torn_adds)
        return Request(collective, x.dtype, op, x.numel(), self.size, x.device.type, *torn)

    def all_reduce(
        self,
        x: torch.Tensor,
        out: torch.Tensor | None = None,
        op: str = "sum",
        algorithm: str | None = None,
        launch: Launch | None = None,
        lane: int = 0,
        scale: float | None = None,
    ) -> torch.Tensor:
        """Reduce ``x`` over all ranks; every rank gets the result, the same to the bit.

        Ranks are taken in order with a float32 accumulator (of float64 float64, of integers exact)
        and the result is rounded once; the choice of algorithm never changes a bit. Gradients are
        not recorded.

        Parameters
        ----------
        x : Tensor
            float32, float16, bfloat16, float64, float8_e4m3fn, float8_e5m2, int8, uint8, int32 or
            int64; any shape, strides and alignment; same count on all ranks.
        out : Tensor, optional
            Where to write; same shape, dtype and device as ``x``. Pass ``x`` itself to work in
            place. A new contiguous tensor by default.
        op : str
            ``"sum"``, ``"avg"``, ``"min"``, ``"max"`` or ``"prod"``. An average of integers is
            rounded towards zero; of floats the least and the greatest are NaN where any rank's is.
        algorithm : str, optional
            A name of the registry, in place of the chooser's pick; equal on all ranks.
        launch : Launch, optional
            A launch shape, in place of the algorithm's default; equal on all ranks.
        lane : int
            Which of the world's lanes; equal on all ranks.
        scale : float, optional
            What each rank's input is multiplied by, and rounded as the accumulator is, before it is
            summed; for floats and ``"sum"`` alone; equal on all ranks.

        Returns
        -------
        Tensor
            ``out``, or the new tensor.

        Raises
        ------
        InvalidArgument
            For an argument that breaks a rule.
        UnsupportedError
            When no algorithm serves the dtype or op, with each one's reason; when a kernel that
            is not loaded yet is asked for inside a CUDA graph's capture; or under fake tensors, or
            a tracer that would lose the call.
        CollectiveTimeout
            When a wait passed its deadline, here or on a peer; each element of the output is then
            the whole result or NaN, of integers 0. On a GPU the error comes with the next call or
            :meth:`synchronize`.
        CollectiveAborted
            When another rank's call ended in an exception; the output is as after a timeout.
        LaneOverlap
            When two operations of the lane ran at once.
        MismatchError
            In debug mode, when ranks differ in their arguments.
        WorldClosed
            After :meth:`close`, or in a fork of this process.
        """
        plain = not is_dynamo_compiling() and out is None and type(x) is torch.Tensor
        if plain and x.is_cuda and not self.debug:
            done = self._plans.again(x, ("all_reduce", op, scale, 0, algorithm, launch, lane))
            if done is not None:
                return done
        options = {"op": op, "algorithm": algorithm, "launch": launch, "scale": scale}
        return parts.tensor(self, "all_reduce", x, out, lane, **options)

    all_gather = parts.all_gather
    broadcast = parts.broadcast
    gather = parts.gather
    scatter = parts.scatter
    all_to_all = parts.all_to_all
    reduce_scatter = parts.reduce_scatter
    reduce = parts.reduce

    def _lane(self, index: int) -> Lane:
        lanes = self.lanes
        try:
            return lanes[whole_number("lane", index, 0, len(lanes) - 1)]
        except InvalidArgument:
            if len(lanes) > 1:
                raise
            raise InvalidArgument("lane", index, "this world has one lane, 0") from None

    def _on_device(self) -> AbstractContextManager[Any]:
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()

    def barrier(self, lane: int = 0) -> None:
        """Wait until every rank has called this and has done what its stream held before.

        Inside a CUDA graph's capture the host does not wait; the stream will.

        Parameters
        ----------
        lane : int
            Which of the world's lanes; equal on all ranks.

        Raises
        ------
        CollectiveTimeout
            When a rank did not come within the deadline.
        MismatchError
            In debug mode, when another rank calls something else.
        WorldClosed
            After :meth:`close`.
        """
        eager(self._barrier)(lane)

    def _barrier(self, index: int) -> None:
        with refusals_told(self, "barrier"):
            lane = self._lane(index)
            check_modes("barrier")
        lane.check()
        if self.debug:
            mine = {"collective": "barrier", "refused": None, "lane": lane.index}
            checks.check_match(self._rendezvous, mine)
        with self._on_device():
            made = self._loader.ensure(("barrier",), lambda: BarrierPlan(lane))
            with launching(lane, "barrier"):
                made.run(0, 0)
                if self.device.type == "cuda" and not torch.cuda.is_current_stream_capturing():
                    torch.cuda.current_stream().synchronize()

    def synchronize(self) -> None:
        """Wait for the current stream's work and raise what any lane reports.

        Raises
        ------
        CollectiveError
            What killed a lane: :class:`CollectiveTimeout` and its like.
        WorldClosed
            After :meth:`close`.
        """
        lanes = self.lanes
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()
        for lane in lanes:
            lane.look()

    def explain(self, collective: str, x: torch.Tensor, op: str | None = None) -> Explanation:
        """Say what a call would run, why, what was refused, and the arena's map.

        Raises
        ------
        InvalidArgument
            For a tensor or a collective that is none.
        UnsupportedError
            When nothing serves the call, with each algorithm's reason.
        """
        lane = self.lane
        checks.check_tensor("x", x, self.device)
        request = self.request(collective, x, op)
        choice = choose(request)
        most = largest_grid(choice.algorithm, choice.launch, lane.provider)
        return explain(request, choice, lane.arena.layout, self.provider, most)

    def recover(self, timeout: float | None = None) -> None:
        """Make a world with a dead lane usable again; collective.

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
        lanes = self.lanes
        limit = None if timeout is None else seconds("timeout", timeout)
        recover(lanes, self._rendezvous, limit)

    def close(self) -> None:
        """Give the memory back. Not collective; a second call does nothing, nor one in a fork."""
        if os.getpid() != self._process:
            return
        lanes, self._lanes = self._lanes, ()
        self._plans.clear()
        if not lanes:
            return
        if self._watchdog is not None:
            self._watchdog.stop()
        errors: list[Exception] = []
        for lane in lanes:
            try:
                lane.close()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
