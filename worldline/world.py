"""`World`: ranks that run collectives together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import torch
import torch.distributed as dist
from torch.compiler import is_dynamo_compiling

from worldline import checks, moves
from worldline.autotune.choose import Choice, choose
from worldline.eager import eager
from worldline.explanation import Explanation, explain
from worldline.kernels.launch import BarrierPlan, largest_grid
from worldline.kernels.loading import Loader
from worldline.kernels.moves import default_op
from worldline.kernels.registry import Launch, Request
from worldline.plans import Plans, abandon
from worldline.primitives.arguments import seconds, whole_number
from worldline.primitives.bootstrap import Rendezvous
from worldline.primitives.errors import InvalidArgument, WorldClosed, WorldlineError
from worldline.primitives.lane import Lane, recover
from worldline.primitives.watchdog import Watchdog


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
            After :meth:`close`.
        """
        if not self._lanes:
            raise WorldClosed("this world is closed")
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

        Ranks are taken in order, in an accumulator that is rounded once; the choice of algorithm
        never changes a bit. Gradients are not recorded.

        Parameters
        ----------
        x : Tensor
            float32, float16, bfloat16, float64, float8_e4m3fn, float8_e5m2, int8, uint8, int32 or
            int64; any shape, strides and alignment; same count on all ranks.
        out : Tensor, optional
            Where to write; same shape, dtype and device as ``x``. Pass ``x`` itself to work in
            place. A new contiguous tensor by default.
        op : str
            ``"sum"``, ``"avg"``, ``"min"``, ``"max"`` or ``"prod"``; docs/all_reduce.md has rules.
        algorithm : str, optional
            A name of the registry, in place of the chooser's pick; equal on all ranks.
        launch : Launch, optional
            A launch shape, in place of the algorithm's default; equal on all ranks.
        lane : int
            Which of the world's lanes; equal on all ranks.
        scale : float, optional
            A factor of every input, rounded in the accumulator's type before it is summed; for
            floats and ``"sum"`` alone; equal on all ranks.

        Returns
        -------
        Tensor
            ``out``, or the new tensor.

        Raises
        ------
        InvalidArgument
            For an argument that breaks a rule.
        UnsupportedError
            When no algorithm serves the dtype or op, with each one's reason; or when a kernel that
            is not loaded yet is asked for inside a CUDA graph's capture.
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
            After :meth:`close`.
        """
        if is_dynamo_compiling():
            return eager(self._all_reduce)(x, out, op, algorithm, launch, lane, scale)
        if out is None and type(x) is torch.Tensor and x.is_cuda and not self.debug:
            done = self._plans.again(x, (op, scale, algorithm, launch, lane))
            if done is not None:
                return done
        return self._all_reduce(x, out, op, algorithm, launch, lane, scale)

    def _all_reduce(
        self,
        x: torch.Tensor,
        out: torch.Tensor | None,
        op: str,
        algorithm: str | None,
        launch: Launch | None,
        lane_index: int,
        scale: float | None,
    ) -> torch.Tensor:
        lane = self._lane(lane_index)
        try:
            request, choice = self._choose(x, out, op, algorithm, launch, scale)
        except WorldlineError as error:
            if self.debug:
                refused = {"collective": "all_reduce", "refused": str(error)}
                checks.check_match(self._rendezvous, refused)
            raise
        lane.check()
        if self.debug:
            lane.look()
            signature = checks.signature(request, algorithm, launch, lane_index)
            checks.check_match(self._rendezvous, signature)
        options = (op, request.scale, algorithm, launch, lane_index)
        with torch.no_grad(), self._on_device():
            made = self._plans.of(x, options, request, choice, lane)
            result = torch.empty(x.shape, dtype=x.dtype, device=x.device) if out is None else out
            direct = result
            if not result.is_contiguous() or result.is_neg():
                direct = torch.empty(x.shape, dtype=x.dtype, device=x.device)
            source = checks.plain(x)
            if checks.partly_overlaps(source, direct):
                source = source.clone()
            try:
                with self._call("all_reduce", lane):
                    made.run(source.data_ptr(), direct.data_ptr())
            except BaseException:
                checks.spoil(direct)
                raise
            finally:
                if direct is not result:
                    result.copy_(direct)
                elif not result.is_inference():
                    # Autograd has to know that the memory changed, as for torch's own operations.
                    torch.autograd.graph.increment_version(result)
        return result

    all_gather = moves.all_gather

    def _choose(
        self,
        x: torch.Tensor,
        out: torch.Tensor | None,
        op: str,
        algorithm: str | None,
        launch: Launch | None,
        scale: float | None,
    ) -> tuple[Request, Choice]:
        """Check a call's arguments and choose its algorithm."""
        checks.check_tensor("x", x, self.device)
        if out is not None:
            checks.check_output(x, out)
        if launch is not None and not isinstance(launch, Launch):
            raise InvalidArgument("launch", launch, "must be a worldline.Launch")
        request = self.request("all_reduce", x, op)
        if scale is not None:
            request = replace(request, scale=checks.check_scale(scale, op, x.dtype))
        return request, choose(request, algorithm, launch)

    def _lane(self, index: int) -> Lane:
        lanes = self.lanes
        return lanes[whole_number("lane", index, 0, len(lanes) - 1)]

    def _on_device(self) -> AbstractContextManager[Any]:
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()

    @contextmanager
    def _call(self, operation: str, lane: Lane) -> Iterator[None]:
        """Run a launch: raise what the lane reports, and kill the lane if this rank leaves it."""
        try:
            yield
            lane.check()
        except BaseException:
            abandon(lane, operation)
            raise

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
        lane = self._lane(index)
        lane.check()
        if self.debug:
            mine = {"collective": "barrier", "refused": None, "lane": index}
            checks.check_match(self._rendezvous, mine)
        with self._on_device():
            made = self._loader.ensure(("barrier",), lambda: BarrierPlan(lane))
            with self._call("barrier", lane):
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
        """Give the memory back. Not collective; a second call does nothing."""
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
