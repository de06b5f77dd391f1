"""Meeting of ranks on the host side, over a torch store.

Collectives here are for set-up, recovery and debugging: slow, bounded in time, and with the missing
ranks named.

Agreement
---------
Ranks come to ``agree`` at different times, and some come again after a failure, so a count kept by
each rank would not stay equal. The world's first rank leads: it makes a token, announces it, and
waits until every rank has signed under it; then it withdraws the announcement and says go. The
others sign under whatever token is announced, again when it changes, and wait for the go. All later
meetings are numbered under the token, from one.

Keys are removed by the last reader, so that a store does not grow with the number of meetings.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from typing import Any, TypeVar

from torch.distributed import DistError, Store

from worldline.primitives.errors import ProviderError, RendezvousTimeout

_POLL_SECONDS = 0.002
_Answer = TypeVar("_Answer")


def ask(what: str, call: Callable[..., _Answer], *args: Any) -> _Answer:
    """Make a call of a store; every one is made here.

    Raises
    ------
    ProviderError
        When the store is lost: the process that hosts it has ended, say.
    """
    try:
        return call(*args)
    except DistError as error:
        # What follows the first line are the frames of torch's own code.
        reason = str(error).partition("\n")[0]
        raise ProviderError(f"{what}: the ranks' store is lost: {reason}") from error


class Rendezvous:
    """One world's corner of a store.

    Parameters
    ----------
    store : torch.distributed.Store
        A store that all ranks reach.
    root : str
        Equal on all ranks of this world, and of no world of other ranks.
    rank, size : int
        This rank and the number of ranks, inside the world.
    timeout : float
        Seconds that a meeting may take.
    """

    def __init__(self, store: Store, root: str, rank: int, size: int, timeout: float) -> None:
        self.store, self.root = store, root
        self.rank, self.size, self.timeout = rank, size, timeout
        self.prefix = root
        self._meetings = 0

    def agree(self, what: str, timeout: float | None = None) -> None:
        """Meet afresh, whatever failed before; collective.

        Parameters
        ----------
        what : str
            Name of the meeting, for errors.
        timeout : float, optional
            Seconds, in place of the rendezvous' own.

        Raises
        ------
        RendezvousTimeout
            Naming the ranks that did not come.
        ProviderError
            When the store is lost.
        """
        wait = Wait(self.store, what, self.timeout if timeout is None else timeout)
        here = [f"{self.root}/here/{rank}" for rank in range(self.size)]
        # Stays after a failure: who came and gave up is not among those that did not come.
        ask(what, self.store.set, here[self.rank], "")
        token = self._lead(wait) if self.rank == 0 else self._follow(wait, here)
        ask(what, self.store.delete_key, here[self.rank])
        self.prefix, self._meetings = f"{self.root}/{token}", 0
        if ask(what, self.store.add, f"{self.prefix}/left", 1) == self.size:
            for name in ("left", "go", *range(self.size)):
                ask(what, self.store.delete_key, f"{self.prefix}/{name}")

    def _lead(self, wait: Wait) -> str:
        announced, token = f"{self.root}/token", secrets.token_hex(8)
        signatures = [f"{self.root}/{token}/{rank}" for rank in range(self.size)]
        ask(wait.what, self.store.set, signatures[0], "")
        ask(wait.what, self.store.set, announced, token)
        try:
            wait.until(signatures)
        finally:
            # Withdrawn before the go: whoever comes next must not sign under a token that is spent.
            ask(wait.what, self.store.delete_key, announced)
        ask(wait.what, self.store.set, f"{self.root}/{token}/go", "")
        return token

    def _follow(self, wait: Wait, here: list[str]) -> str:
        announced, signed = f"{self.root}/token", ""
        while True:
            if signed and wait.has(f"{self.root}/{signed}/go"):
                return signed
            if wait.has(announced):
                token = wait.get(announced)
                if token and token != signed:
                    signed = token
                    ask(wait.what, self.store.set, f"{self.root}/{signed}/{self.rank}", "")
            if wait.over():
                names = range(self.size)
                keys = [f"{self.root}/{signed}/{rank}" for rank in names] if signed else here
                absent = [rank for rank in names if not wait.has(keys[rank])]
                # All signed and nobody said go: the leader is gone.
                raise RendezvousTimeout(wait.what, absent or [0], wait.seconds)

    def gather(self, what: str, value: Any, timeout: float | None = None) -> list[Any]:
        """Exchange one JSON value with every rank; collective.

        Parameters
        ----------
        what : str
            Name of the meeting, for errors.
        value : object
            Anything that JSON can carry.
        timeout : float, optional
            Seconds, in place of the rendezvous' own.

        Returns
        -------
        list
            Every rank's value, in rank order.

        Raises
        ------
        RendezvousTimeout
            Naming the ranks that did not come.
        ProviderError
            When the store is lost.
        """
        wait = Wait(self.store, what, self.timeout if timeout is None else timeout)
        self._meetings += 1
        root = f"{self.prefix}/{self._meetings}"
        keys = [f"{root}/{rank}" for rank in range(self.size)]
        ask(what, self.store.set, keys[self.rank], json.dumps(value))
        wait.until(keys)
        values = [json.loads(ask(what, self.store.get, key)) for key in keys]
        if ask(what, self.store.add, f"{root}/read", 1) == self.size:
            for key in [*keys, f"{root}/read"]:
                ask(what, self.store.delete_key, key)
        return values

    def together(self, what: str, work: Callable[[], object]) -> None:
        """Do something on every rank, or fail on all of them; collective.

        Parameters
        ----------
        what : str
            Name of the meeting afterwards, for errors.
        work : callable
            What this rank does.

        Raises
        ------
        ProviderError
            On every rank, for the first rank whose work raised.
        RendezvousTimeout
            Naming the ranks that did not come.
        """
        own: Exception | None = None
        try:
            work()
        except Exception as error:
            own = error
        problem = "" if own is None else f"rank {self.rank}: {own}"
        for fault in self.gather(what, problem):
            if fault:
                raise ProviderError(fault) from own

    def meet(self, what: str, timeout: float | None = None) -> None:
        """Wait for every rank; collective, errors as for :meth:`gather`."""
        self.gather(what, None, timeout)


class Wait:
    """A wait for keys of a store, bounded in time.

    It looks again and again: the store's own wait cannot watch several things, and writes its
    timeouts to standard error.
    """

    def __init__(self, store: Store, what: str, seconds: float) -> None:
        self.store, self.what, self.seconds = store, what, seconds
        self._until = time.monotonic() + seconds

    def over(self) -> bool:
        """Say whether time is up, after a short sleep if it is not."""
        if time.monotonic() >= self._until:
            return True
        time.sleep(_POLL_SECONDS)
        return False

    def has(self, key: str) -> bool:
        """Say whether a key is there."""
        return bool(ask(self.what, self.store.check, [key]))

    def get(self, key: str) -> str:
        """Return a key's value, or nothing if it went away since it was seen."""
        # compare_set with values that no key has: a plain get would wait for the key to come back.
        value = ask(self.what, self.store.compare_set, key, "\0", "\0").decode()
        return "" if value == "\0" else value

    def until(self, keys: list[str]) -> None:
        """Wait for all keys; those of absent ranks are named by their place in the list."""
        left = list(range(len(keys)))
        while True:
            left = [index for index in left if not self.has(keys[index])]
            if not left:
                return
            if self.over():
                raise RendezvousTimeout(self.what, left, self.seconds)
