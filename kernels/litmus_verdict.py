"""The litmus' verdict on a machine's links: kept beside the compiled kernels."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from worldline.kernels.litmus import KINDS, REDUCTIONS, STORES, TALLIES, Tally, add
from worldline.primitives.cubin_cache import cache_folder, write_whole
from worldline.primitives.fingerprint import HARDWARE, hardware
from worldline.primitives.gpus import machine as this_machine

ENOUGH = 10_000
"""Lines that each rank must have seen change: fewer show nothing."""

NO_REDUCTIONS = "only GPUs from compute capability 9.0 on add 16 bytes at once"


def make(seen: Sequence[Sequence[Tally]], gpus: Sequence[str], seconds: float) -> dict[str, Any]:
    """Describe what ranks have seen.

    Parameters
    ----------
    seen : sequence of sequence of Tally
        What each rank saw.
    gpus : sequence of str
        The ranks' GPUs, by UUID: between them the verdict holds.
    seconds : float
        How long each kind of access was hammered.
    """
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "ranks": len(seen),
        "seconds": seconds,
        "hardware": hardware(),
        "gpus": list(gpus),
        "fewest": {
            kind: min(sum(t.changes for t in of_rank if t.kind == kind) for of_rank in seen)
            for kind in KINDS
        },
        "tallies": [tally.as_dict() for tally in add(t for tallies in seen for t in tallies)],
    }


def verdict_file(machine: dict[str, Any]) -> Path:
    """Return where the verdict on a machine's hardware is kept: of this machine, as it runs."""
    known = [{name: machine[name] for name in HARDWARE}, this_machine()]
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
    return cache_folder() / f"litmus-{digest[:16]}.json"


def keep(verdict: dict[str, Any]) -> None:
    """Write a verdict beside the compiled kernels, if that can be.

    Not over one that has seen a torn line, or has looked for longer at the same GPUs.
    """
    file, known = verdict_file(verdict["hardware"]), kept(verdict["hardware"])
    covers = known is not None and set(known["gpus"]) >= set(verdict["gpus"])
    torn = known is not None and any(pieces(known, kind) for kind in KINDS)
    if known and covers and (torn or known["seconds"] > verdict["seconds"]):
        return
    write_whole(file, (json.dumps(verdict, indent=2) + "\n").encode())


def kept(machine: dict[str, Any]) -> dict[str, Any] | None:
    """Return the verdict on a machine's hardware, or None where there is none that is whole."""
    try:
        verdict: dict[str, Any] = json.loads(verdict_file(machine).read_text())
        whole = {
            "date": str(verdict["date"]),
            "seconds": float(verdict["seconds"]),
            "fewest": {kind: int(verdict["fewest"][kind]) for kind in KINDS},
            "gpus": [str(gpu) for gpu in verdict["gpus"]],
        }
        for tally in verdict["tallies"]:
            Tally(str(tally["kind"]), *(int(tally[name]) for name in TALLIES))
        return {**verdict, **whole} if verdict["tallies"] else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def pieces(verdict: dict[str, Any], kind: str = STORES) -> int:
    """Count the lines, or reductions, that were seen in pieces."""
    return sum(int(t["torn_128"]) for t in verdict["tallies"] if t["kind"] == kind)


def why_torn(verdict: dict[str, Any] | None, kind: str = STORES) -> str:
    """Say why a line may arrive in pieces, by a verdict; empty if none was seen to.

    LL128 asks for stores; LL128-atomic for reductions, too, which may be torn where stores are not.
    """
    if verdict is None:
        return "nothing is known of the links before the first init, or `worldline litmus`"
    if pieces(verdict, kind):
        what = "lines" if kind == STORES else "reductions"
        return f"the litmus has seen {pieces(verdict, kind)} {what} of 128 bytes in pieces"
    if kind == REDUCTIONS and all(t["kind"] != kind for t in verdict["tallies"]):
        return NO_REDUCTIONS
    what = "lines" if kind == STORES else "sums"
    return "" if verdict["fewest"][kind] >= ENOUGH else f"the litmus has seen too few {what} change"


def in_words(verdict: dict[str, Any] | None) -> str:
    """Say in one line what is known of the links."""
    if verdict is None:
        return "litmus: not run yet; `worldline litmus` hammers the links for torn wide stores"
    found = [
        f"{tally['torn_128']} of {tally['changes']} {tally['kind']} of 128 bytes torn"
        for tally in verdict["tallies"]
    ]
    return f"litmus of {verdict['date']}: {', '.join(found)}"
