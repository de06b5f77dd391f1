"""Every error that Worldline raises, by name.

All derive from :class:`WorldlineError`; each also derives from the built-in exception that a caller
would otherwise expect, so ``except ValueError`` and ``except TimeoutError`` keep working.
"""

from __future__ import annotations

from collections.abc import Sequence


class WorldlineError(RuntimeError):
    """Base of every error that Worldline raises."""


class InvalidArgument(WorldlineError, ValueError):
    """An argument that breaks a rule.

    Parameters
    ----------
    argument : str
        Name of the argument.
    value : object
        What was passed, as it should be shown.
    rule : str
        What the argument has to be.
    """

    def __init__(self, argument: str, value: object, rule: str) -> None:
        super().__init__(f"{argument}={value!r}: {rule}")
        self.argument = argument
        self.value = value
        self.rule = rule

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return type(self), (self.argument, str(self.value), self.rule)


class UnsupportedError(WorldlineError):
    """No algorithm supports a call; the message lists each one with its reason."""


class ProviderError(WorldlineError):
    """Symmetric memory cannot be had on this machine; the message says the remedy."""


class WorldClosed(WorldlineError):
    """A call on a world after ``close()``, or in a fork of its process."""


class MismatchError(WorldlineError):
    """Ranks called a collective with different arguments (found in debug mode)."""


class RendezvousTimeout(WorldlineError, TimeoutError):
    """Ranks that never came to a collective of the host side.

    Parameters
    ----------
    what : str
        The meeting that failed, such as ``"init"`` or ``"recover"``.
    missing : sequence of int
        Ranks that did not come.
    seconds : float
        How long this rank waited.
    """

    def __init__(self, what: str, missing: Sequence[int], seconds: float) -> None:
        self.what, self.missing, self.seconds = what, tuple(missing), seconds
        names = ", ".join(str(r) for r in self.missing) or "unknown"
        super().__init__(f"{what}: rank(s) {names} did not come within {seconds:g} s")

    def __reduce__(self) -> tuple[type, tuple[str, tuple[int, ...], float]]:
        return type(self), (self.what, self.missing, self.seconds)


class CollectiveError(WorldlineError):
    """A collective that did not end as it should on some rank; the lane is dead.

    All ranks call ``World.recover()``, or the survivors make a new world.

    Parameters
    ----------
    message : str
        What happened.
    operation : str
        The collective that was running.
    rank : int
        The rank that raises, in this world.
    peer : int
        The rank to look at, in this world.
    """

    def __init__(self, message: str, operation: str, rank: int, peer: int) -> None:
        super().__init__(
            f"{message} The lane is dead: call World.recover() on all ranks, or make a new world "
            f"of the survivors."
        )
        self.operation, self.rank, self.peer = operation, rank, peer


class CollectiveAborted(CollectiveError):
    """A rank left a collective in the middle: an exception ended its call.

    Parameters
    ----------
    operation, rank, peer
        As for :class:`CollectiveError`; ``peer`` is the rank that left.
    """

    def __init__(self, operation: str, rank: int, peer: int) -> None:
        who = "this rank" if peer == rank else f"rank {peer}"
        message = f"{operation}: {who} left the collective in the middle (raised on rank {rank})."
        super().__init__(message, operation, rank, peer)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.operation, self.rank, self.peer)


class LaneOverlap(CollectiveError):
    """Two operations of one lane ran at once on some rank; the lane is dead.

    Operations of a lane must follow each other: on one stream, or on streams that events order.
    Those that are to run at once need lanes of their own.

    Parameters
    ----------
    operation, rank, peer
        As for :class:`CollectiveError`; ``peer`` is the rank that overlapped them.
    lane : int
        The lane.
    """

    def __init__(self, operation: str, rank: int, peer: int, lane: int) -> None:
        who = "this rank" if peer == rank else f"rank {peer}"
        super().__init__(
            f"{operation}: {who} ran two operations of lane {lane} at once (raised on rank "
            f"{rank}). Order them by one stream or by events, or give them lanes of their own "
            f"(worldline.init(lanes=...)).",
            operation,
            rank,
            peer,
        )
        self.lane = lane

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.operation, self.rank, self.peer, self.lane)


class CollectiveTimeout(CollectiveError, TimeoutError):
    """A device-side wait passed its deadline, here or on a peer; the lane is dead.

    Parameters
    ----------
    operation : str
        The collective that was running.
    rank : int
        The rank that raises, in this world.
    peer : int
        The first suspect: the rank waited on that was not itself waiting.
    reporter : int
        The rank whose deadline passed first.
    epoch : int
        The reporter's epoch; for a sentinel operation, their count.
    slot : int
        Index of the first slot (LL, sentinel) or block (signals) that was missing at the reporter;
        512 where it waited for a token.
    expected, seen : int
        The flag waited for and the flag found. A sentinel slot has no flag: the count, and
        ``0xffffffff`` for empty. A token's are four times the count.
    seconds : float
        The deadline.
    """

    def __init__(
        self,
        operation: str,
        rank: int,
        peer: int,
        reporter: int,
        epoch: int,
        slot: int,
        expected: int,
        seen: int,
        seconds: float,
    ) -> None:
        suspect = "this rank" if peer == rank else f"rank {peer}"
        super().__init__(
            f"{operation}: rank {reporter} waited {seconds:g} s; first suspect is {suspect} "
            f"(raised on rank {rank}; epoch {epoch}, slot {slot}, expected {expected}, "
            f"saw {'nothing' if seen == 0xFFFFFFFF else seen}).",
            operation,
            rank,
            peer,
        )
        self.reporter, self.epoch, self.slot = reporter, epoch, slot
        self.expected, self.seen, self.seconds = expected, seen, seconds

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (
            self.operation,
            self.rank,
            self.peer,
            self.reporter,
            self.epoch,
            self.slot,
            self.expected,
            self.seen,
            self.seconds,
        )


class RankFailed(WorldlineError):
    """A spawned rank raised, died or did not end in time.

    Parameters
    ----------
    rank : int
        The rank.
    reason : str
        What happened; for an exception, its traceback.
    """

    def __init__(self, rank: int, reason: str) -> None:
        super().__init__(f"rank {rank} failed: {reason}")
        self.rank, self.reason = rank, reason

    def __reduce__(self) -> tuple[type, tuple[int, str]]:
        return type(self), (self.rank, self.reason)
