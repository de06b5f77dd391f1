"""What a planted bug is."""

from __future__ import annotations

from typing import NamedTuple


class Bug(NamedTuple):
    """One planted bug.

    Parameters
    ----------
    header : str
        The header that is edited; ``lane.py`` for what hosts do.
    old, new : str
        The edit; the old text occurs exactly once in it.
    scenario : str
        What runs, a name that ``scenario.cpp`` knows.
    seeds : int
        How many seeds from 0 on must do to show it. Rarer bugs get more, so that a change of the
        kernels, which shuffles what a seed does, rarely hides one.
    """

    header: str
    old: str
    new: str
    scenario: str
    seeds: int
