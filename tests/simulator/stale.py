"""LL's slots as any operations before have left them."""

from __future__ import annotations

import numpy as np

_BACK = (0, 2, (1 << 8) - 2, (1 << 16) - 2, (1 << 31) - 2)
"""From a half's newest epoch: further ones share low bits with the next to use it, or its sign."""


def fill_with_older(region: np.ndarray, last: int, seed: int) -> None:
    """Fill both halves of every rank with slots of older epochs, or that were never written.

    All of a half's are of one epoch, or each half of a slot is of some.

    Parameters
    ----------
    region : ndarray of uint32
        The ranks' LL regions, one a row.
    last : int
        The last epoch; none is later, and each is of its half.
    seed : int
        What all random choices derive from. Data may look like an epoch to come.
    """
    rng = np.random.default_rng(seed)
    halves = region.reshape(len(region), 2, -1, 2)
    for half in range(2):
        words = halves[:, half]
        newest, first = last - ((last ^ half) & 1), 2 + half
        # Of one large call's, or of many.
        drawn = (1, 1) if rng.random() < 0.5 else words.shape[:2]
        flags = newest - rng.choice(_BACK, drawn) + np.zeros(words.shape[:2], np.int64)
        flags[(rng.random(drawn) < 0.3) & np.ones(flags.shape, bool)] = first
        fits = (flags >= first) & (flags <= newest)
        data = rng.integers(0, 1 << 32, flags.shape)
        coming = rng.random(flags.shape) < 0.5
        data[coming] = (last + rng.integers(1, 5, flags.shape))[coming] & 0xFFFFFFFF
        words[..., 0], words[..., 1] = np.where(fits, data, 0), np.where(fits, flags, 0)
