"""The chooser: one algorithm for a request, the reason, and what was refused.

Until a sweep has measured this machine, a model chooses. One-shot costs one crossing of the link
and sends (n - 1) times the data; two-shot costs two crossings and sends 2 (n - 1) / n times the
data. LL sends twice the bytes and waits for least, LL128 sends 128 for 120, a sentinel sends no
more than the data and pays for a fence. The thresholds are the sizes at which they meet: for two
ranks measured on H200s, for more expected.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from worldline.kernels.parts import RULES
from worldline.kernels.protocols import COPIES, LL, LL128, SENTINEL, Protocol
from worldline.kernels.registry import (
    ALGORITHMS,
    ANY_SIZE,
    Algorithm,
    Launch,
    Request,
    algorithm,
    algorithms,
)
from worldline.primitives.errors import InvalidArgument, UnsupportedError

COLLECTIVES = tuple(sorted({row.collective for row in ALGORITHMS}))
"""All that there is an algorithm for."""
_ONE_SHOT_UP_TO = ((2, ANY_SIZE), (3, 512 << 10), (4, 256 << 10), (8, 64 << 10), (16, 32 << 10))
"""(world size at most, bytes up to which one-shot is chosen)."""
_LL_UP_TO, _LL128_UP_TO = 64 << 10, 1 << 20
_OF_TWO_RANKS = (8 << 10, 768 << 10)
"""The same of two ranks, as measured: one-shots, the sentinel's of one pass."""
_SENTINEL_ONE_SHOT_UP_TO = 16 << 20
"""Of two ranks, two passes of all channels; more ranks send less in a two-shot."""
_LL_WITHOUT_LL128_UP_TO = 512 << 10
_LL_PARTS_UP_TO, _LL_PARTS_WITHOUT_LL128_UP_TO = 8 << 10, 1 << 20


@dataclass(frozen=True)
class Choice:
    """An answer of the chooser.

    Parameters
    ----------
    algorithm : Algorithm
        What runs.
    launch : Launch
        In which shape.
    reason : str
        Why.
    refused : tuple of (str, str)
        Names of algorithms that could not serve, each with its reason.
    """

    algorithm: Algorithm
    launch: Launch
    reason: str
    refused: tuple[tuple[str, str], ...]


def choose(request: Request, name: str | None = None, launch: Launch | None = None) -> Choice:
    """Choose an algorithm from what is equal on all ranks.

    Parameters
    ----------
    request : Request
        What is asked for.
    name : str, optional
        The caller's own choice.
    launch : Launch, optional
        The caller's own launch shape; equal on all ranks.

    Raises
    ------
    InvalidArgument
        For a collective or a name that the registry does not have, or a launch too narrow for a
        GPU or too wide for an algorithm.
    UnsupportedError
        When nothing can serve, with every reason.
    """
    if request.collective not in COLLECTIVES:
        rule = f"must be one of {', '.join(COLLECTIVES)}"
        raise InvalidArgument("collective", request.collective, rule)
    if name is None:
        asked = algorithms(request.collective)
    else:
        asked = (algorithm(request.collective, name),)
    verdicts = [(row, row.supports(request) or _unasked(row, name)) for row in asked]
    refused = tuple((row.name, reason) for row, reason in verdicts if reason is not None)
    able = [row for row, reason in verdicts if reason is None]
    if not able:
        why_not = _by_reason(refused)
        raise UnsupportedError(f"no algorithm serves this {request.collective}: {why_not}")
    if name is not None:
        chosen, why = able[0], "the caller asked for it"
    elif request.collective in RULES:
        chosen, why = _of_parts(request, able)
    else:
        chosen, why = _by_size(request, able)
    broken = launch and chosen.refuses(request, launch)
    if launch and broken:
        raise InvalidArgument("launch.block", launch.block, broken)
    return Choice(chosen, launch or chosen.launches(request)[0], why, refused)


def _unasked(row: Algorithm, name: str | None) -> str | None:
    """Say why a row is not chosen unless a caller names it, or return None where it may be."""
    if name is not None or row.bitwise:
        return None
    return f"its bits differ from run to run ({row.determinism}): only by algorithm={row.name!r}"


def _by_reason(refused: tuple[tuple[str, str], ...]) -> str:
    """Say each reason once, after the names that it holds for."""
    names: dict[str, list[str]] = {}
    for name, reason in refused:
        names.setdefault(reason, []).append(name)
    return "; ".join(f"{', '.join(rows)}: {reason}" for reason, rows in names.items())


def _by_size(request: Request, able: list[Algorithm]) -> tuple[Algorithm, str]:
    protocol, least = _protocol(request, able)
    worlds = [world for world, _ in _ONE_SHOT_UP_TO]
    row = min(bisect.bisect_left(worlds, request.world_size), len(worlds) - 1)
    limit = _ONE_SHOT_UP_TO[row][1]
    shots = 1 if request.nbytes <= limit else 2
    sign, bound = ("<=", limit) if shots == 1 else (">", limit)
    if protocol is SENTINEL and request.world_size > 1:
        shots, sign, bound = 2, ">", least
        if request.world_size == 2 and request.nbytes <= _SENTINEL_ONE_SHOT_UP_TO:
            shots, sign, bound = 1, "<=", _SENTINEL_ONE_SHOT_UP_TO
    ranks = "1 rank" if request.world_size == 1 else f"{request.world_size} ranks"
    why = (
        f"by model: {request.nbytes} bytes {sign} "
        f"{'any size' if bound == ANY_SIZE else f'{bound} bytes'} with {ranks} "
        "(no measured table)"
    )
    rows = [row for row in able if (row.protocol, row.shots) == (protocol, shots)]
    return (rows or able)[0], why


def _of_parts(request: Request, able: list[Algorithm]) -> tuple[Algorithm, str]:
    """Choose for a collective of parts, by the bytes of one."""
    nbytes = request.part * request.dtype.itemsize
    lines = any(row.protocol is LL128 for row in able)
    if request.device_type == "cuda" and any(row.protocol is COPIES for row in able):
        copying = next(row for row in able if row.protocol is COPIES)
        return copying, "by model: on GPUs the one that has been measured (no measured table)"
    if nbytes <= _LL_PARTS_UP_TO or not lines:
        protocol, sign = LL, "<="
    else:
        protocol, sign = LL128, ">"
    bound = _LL_PARTS_UP_TO
    if not lines:
        # Half of what LL sends is flags, and the CPU's interpreter takes its time.
        bound = _LL_PARTS_WITHOUT_LL128_UP_TO
        copies = nbytes > bound and any(row.protocol is COPIES for row in able)
        protocol, sign = (COPIES, ">") if copies else (LL, "<=" if nbytes <= bound else ">")
    why = f"by model: parts of {nbytes} bytes {sign} {bound} bytes (no measured table)"
    return next(row for row in able if row.protocol is protocol), why


def _protocol(request: Request, able: list[Algorithm]) -> tuple[Protocol, int]:
    """Return a size's protocol, and the bytes from which on it is chosen."""
    if request.device_type == "cpu":
        return LL, 0  # The interpreter's cost is one of operations: LL has the fewest.
    lines = any(row.protocol is LL128 for row in able)
    most = _OF_TWO_RANKS if request.world_size == 2 else (_LL_UP_TO, _LL128_UP_TO)
    ll, ll128 = most if lines else (_LL_WITHOUT_LL128_UP_TO, 0)
    if request.nbytes <= ll:
        return LL, 0
    return (LL128, ll) if request.nbytes <= ll128 else (SENTINEL, max(ll, ll128))
