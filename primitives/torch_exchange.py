"""The store that torch's symmetric memory meets in: one world's, and bounded in time.

Torch numbers its exchanges by process, whatever group they are of (pytorch issue 196082): ranks
that have met in different numbers of groups before would wait for keys that nobody sets. Here the
numbers count from the world's first exchange, which is the same on all its ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from torch.distributed import Store

from worldline.primitives.bootstrap import Wait, ask
from worldline.primitives.errors import RendezvousTimeout

_WHAT = "torch's exchange of memory"


class ExchangeStore(Store):
    """A store for one meeting of torch's symmetric memory.

    Parameters
    ----------
    store : torch.distributed.Store
        Where the keys go: a corner that is the meeting's own.
    seconds : float
        How long one rank's key may take; torch itself waits for the store's default.
    """

    def __init__(self, store: Store, seconds: float) -> None:
        super().__init__()
        self._store, self._seconds = store, seconds
        self._first: int | None = None
        self._set: list[str] = []

    def set(self, key: str, value: str) -> None:
        """Set a key; torch's values are bytes."""
        self._set.append(self._own(key))
        ask(_WHAT, self._store.set, self._set[-1], value)

    def get(self, key: str) -> bytes:
        """Return a key's value."""
        return ask(_WHAT, self._store.get, self._own(key))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait for keys.

        Raises
        ------
        RendezvousTimeout
            Naming the rank whose key did not come.
        """
        wait = Wait(self._store, _WHAT, self._seconds)
        for key in keys:
            while not wait.has(self._own(key)):
                if wait.over():
                    rank = int(key.rpartition("/")[2])
                    raise RendezvousTimeout(wait.what, [rank], wait.seconds)

    def forget(self) -> None:
        """Delete what this rank has set, once every rank's meeting is over."""
        for key in self._set:
            ask(_WHAT, self._store.delete_key, key)

    def _own(self, key: str) -> str:
        """Count a key ``name/number/rank`` from this meeting's first."""
        name, number, rank = key.rsplit("/", 2)
        if self._first is None:
            self._first = int(number)
        return f"{name}/{int(number) - self._first}/{rank}"
