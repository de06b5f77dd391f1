"""The litmus' verdict on a machine's links: kept beside the compiled kernels."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from worldline.kernels.litmus import STORES, TALLIES, Tally, add
from worldline.primitives.cubin_cache import cache_folder, write_whole
from worldline.primitives.fingerprint import HARDWARE, hardware
from worldline.primitives.gpus import machine as this_machine

ENOUGH = 10_000
"""Lines that each rank must have seen change: fewer show nothing."""


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
        "fewest": min(t.changes for tallies in seen for t in tallies if t.kind == STORES),
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
    if known and covers and (pieces(known) or known["seconds"] > verdict["seconds"]):
        return
    write_whole(file, (json.dumps(verdict, indent=2) + "\n").encode())


def kept(machine: dict[str, Any]) -> dict[str, Any] | None:
    """Return the verdict on a machine's hardware, or None where there is none that is whole."""
    try:
        verdict: dict[str, Any] = json.loads(verdict_file(machine).read_text())
        whole = {
            "date": str(verdict["date"]),
            "seconds": float(verdict["seconds"]),
            "fewest": int(verdict["fewest"]),
            "gpus": [str(gpu) for gpu in verdict["gpus"]],
        }
        for tally in verdict["tallies"]:
            Tally(str(tally["kind"]), *(int(tally[name]) for name in TALLIES))
        return {**verdict, **whole} if verdict["tallies"] else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def pieces(verdict: dict[str, Any]) -> int:
    """Count the stores of lines that were seen in pieces: LL128 makes no reductions."""
    return sum(int(t["torn_128"]) for t in verdict["tallies"] if t["kind"] == STORES)


def why_torn(verdict: dict[str, Any] | None) -> str:
    """Say why a line may arrive in pieces, by a verdict; empty if none was seen to."""
    if verdict is None:
        return "nothing is known of the links before the first init, or `worldline litmus`"
    if pieces(verdict):
        return f"the litmus has seen {pieces(verdict)} lines of 128 bytes in pieces"
    return "" if verdict["fewest"] >= ENOUGH else "the litmus has seen too few lines change"


def in_words(verdict: dict[str, Any] | None) -> str:
    """Say in one line what is known of the links."""
    if verdict is None:
        return "litmus: not run yet; `worldline litmus` hammers the links for torn wide stores"
    found = [
        f"{tally['torn_128']} of {tally['changes']} {tally['kind']} of 128 bytes torn"
        for tally in verdict["tallies"]
    ]
    return f"litmus of {verdict['date']}: {', '.join(found)}"
