"""What a bench reports: one row for each algorithm or peer, dtype and size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from worldline.kernels.registry import ALGORITHMS


@dataclass(frozen=True)
class Row:
    """One measured point.

    Parameters
    ----------
    algorithm : str
        Name in the registry, or of a peer.
    peer : bool
        Whether it is another library's.
    dtype : str
        Such as ``"float32"``.
    nbytes : int
        Bytes of each rank's input.
    exact : bool or None
        Whether every rank's bits equal the reference's: of whole numbers where no order of adding
        is promised, None for peers.
    microseconds : float or None
        Median of the slowest rank's times of one operation: on GPUs one of a graph's, the ranks
        started together by their devices.
    spread : float or None
        Largest less smallest time over the median.
    replay_microseconds : float or None
        As ``microseconds``, of a graph replayed on an idle GPU after a meeting of the hosts: the
        graph's launch and the hosts' distance are in it. None on the CPU.
    host_microseconds : float or None
        What a call costs the host thread, eager; the slowest rank's median. None on the CPU.
    sms : int or None
        Streaming multiprocessors that its blocks occupy, of ours on GPUs.
    reason : str or None
        Why the point was not measured.
    """

    algorithm: str
    peer: bool
    dtype: str
    nbytes: int
    exact: bool | None = None
    microseconds: float | None = None
    spread: float | None = None
    replay_microseconds: float | None = None
    host_microseconds: float | None = None
    sms: int | None = None
    reason: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def ratios(
    rows: Sequence[dict[str, Any]], family: str, field: str = "microseconds"
) -> dict[str, float]:
    """Compare our fastest that may be chosen unasked with a family of peers', by dtype and size.

    Parameters
    ----------
    rows : sequence of dict
        Rows as plain data.
    family : str
        What the peers' names begin with, such as ``"NCCL"``.
    field : str
        Which time to compare.

    Returns
    -------
    dict
        Our time over theirs, under keys such as ``"bfloat16 1024"``; sizes that either lacks are
        left out.
    """
    best: dict[bool, dict[str, float]] = {False: {}, True: {}}
    by_name = {row.name for row in ALGORITHMS if not row.bitwise}
    for row in rows:
        if row[field] is None or row["exact"] is False or row["algorithm"] in by_name:
            continue
        if row["algorithm"].startswith(family) if row["peer"] else "," not in row["algorithm"]:
            key, side = f"{row['dtype']} {row['nbytes']}", best[row["peer"]]
            side[key] = min(side.get(key, row[field]), row[field])
    return {key: ours / best[True][key] for key, ours in best[False].items() if key in best[True]}
