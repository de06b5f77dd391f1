"""`World`: ranks that run collectives together."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import torch
import torch.distributed as dist

from worldline import checks
from worldline.autotune.choose import choose
from worldline.explanation import Explanation, explain
from worldline.kernels import launch as kernel_launch
from worldline.kernels.registry import Launch, Request
from worldline.primitives.bootstrap import Rendezvous
from worldline.primitives.errors import CollectiveTimeout, WorldClosed
from worldline.primitives.lane import Lane


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
        MismatchError
            In debug mode, when ranks differ in their arguments.
        WorldClosed
            After :meth:`close`.
        """
        lane = self.lane
        checks.check_tensor("x", x, lane.provider.device_type)
        if out is not None:
            checks.check_output(x, out)
        request = self.request("all_reduce", x, op)
        lane.check()
        if self.debug:
            checks.check_match(self._rendezvous, request, algorithm, launch)
        choice = choose(request, algorithm, launch)
        result = torch.empty(x.shape, dtype=x.dtype, device=x.device) if out is None else out
        direct = (
            result
            if result.is_contiguous()
            else torch.empty_like(result, memory_format=torch.contiguous_format)
        )
        with torch.no_grad():
            source = x.contiguous()
            if checks.partly_overlaps(source, direct):
                source = source.clone()
            try:
                kernel_launch.run(choice.algorithm, request, lane, source, direct, choice.launch)
                lane.check()
            except CollectiveTimeout:
                direct.fill_(float("nan"))
                raise
            finally:
                if direct is not result:
                    result.copy_(direct)
        return result

    def barrier(self) -> None:
        """Wait until every rank has called this.

        Raises
        ------
        CollectiveTimeout
            When a rank did not come within the deadline.
        """
        lane = self.lane
        lane.check()
        kernel_launch.run_barrier(lane)
        lane.check()

    def explain(self, collective: str, x: torch.Tensor, op: str = "sum") -> Explanation:
        """Say what a call would run, why, what was refused, and the arena's map.

        Raises
        ------
        UnsupportedError
            When nothing serves the call, with each algorithm's reason.
        """
        request = self.request(collective, x, op)
        lane = self.lane
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
        self.lane.recover(self._rendezvous, timeout)

    def close(self) -> None:
        """Give the memory back. Not collective; a second call does nothing."""
        if self._lane is not None:
            self._lane.close()
            self._lane = None
