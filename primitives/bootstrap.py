"""Meeting of ranks on the host side, over a torch store.

Collectives here are for set-up, recovery and debugging: slow, bounded in time, and with the missing
ranks named. Keys live under a prefix that is unique to one world and are removed by the last
reader, so that a store does not grow with the number of worlds.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from torch.distributed import DistStoreError, Store

from worldline.primitives.errors import RendezvousTimeout


class Rendezvous:
    """One world's corner of a store.

    Parameters
    ----------
    store : torch.distributed.Store
        A store that all ranks reach.
    prefix : str
        Equal on all ranks of this world, and of no other world on this store.
    rank, size : int
        This rank and the number of ranks, inside the world.
    timeout : float
        Seconds that a meeting may take.
    """

    def __init__(self, store: Store, prefix: str, rank: int, size: int, timeout: float) -> None:
        self.store, self.prefix = store, prefix
        self.rank, self.size, self.timeout = rank, size, timeout
        self._meetings = 0

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
        """
        seconds = self.timeout if timeout is None else timeout
        self._meetings += 1
        root = f"{self.prefix}/{self._meetings}/{what}"
        keys = [f"{root}/{rank}" for rank in range(self.size)]
        self.store.set(keys[self.rank], json.dumps(value))
        try:
            self.store.wait(keys, timedelta(seconds=seconds))
        except (DistStoreError, RuntimeError) as error:
            missing = [rank for rank, key in enumerate(keys) if not self._has(key)]
            raise RendezvousTimeout(what, missing, seconds) from error
        values = [json.loads(self.store.get(key)) for key in keys]
        if self.store.add(f"{root}/read", 1) == self.size:
            for key in [*keys, f"{root}/read"]:
                self.store.delete_key(key)
        return values

    def meet(self, what: str, timeout: float | None = None) -> None:
        """Wait for every rank; collective, errors as for :meth:`gather`."""
        self.gather(what, None, timeout)

    def _has(self, key: str) -> bool:
        try:
            return bool(self.store.check([key]))
        except RuntimeError:
            return False
