"""The litmus' verdict on a machine's links: kept beside the compiled kernels."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from worldline.kernels.litmus import Tally
from worldline.primitives.cubin_cache import cache_folder
from worldline.primitives.fingerprint import HARDWARE, hardware


def make(tallies: Sequence[Tally], ranks: int, seconds: float) -> dict[str, Any]:
    """Describe what ``ranks`` ranks have seen on this machine in so many seconds of each kind."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "ranks": ranks,
        "seconds": seconds,
        "hardware": hardware(),
        "tallies": [tally.as_dict() for tally in tallies],
    }


def verdict_file(machine: dict[str, Any]) -> Path:
    """Return where the verdict on a machine's hardware is kept."""
    hardware = json.dumps({name: machine[name] for name in HARDWARE}, sort_keys=True)
    return cache_folder() / f"litmus-{hashlib.sha256(hardware.encode()).hexdigest()[:16]}.json"


def keep(verdict: dict[str, Any]) -> None:
    """Write a verdict beside the compiled kernels; where that cannot be, it is only printed."""
    file = verdict_file(verdict["hardware"])
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(verdict, indent=2) + "\n")
    except OSError:
        return


def kept(machine: dict[str, Any]) -> dict[str, Any] | None:
    """Return the verdict on a machine's hardware, or None where there is none."""
    try:
        verdict: dict[str, Any] = json.loads(verdict_file(machine).read_text())
    except (OSError, ValueError):
        return None
    return verdict


def why_torn(verdict: dict[str, Any] | None) -> str:
    """Say why a line may arrive in pieces, by a verdict; empty if none was seen to."""
    if verdict is None:
        return "nothing is known of the links: run `worldline litmus`"
    pieces = max(tally["torn_128"] for tally in verdict["tallies"])
    return f"the litmus has seen {pieces} lines of 128 bytes in pieces" if pieces else ""


def in_words(verdict: dict[str, Any] | None) -> str:
    """Say in one line what is known of the links."""
    if verdict is None:
        return "litmus: not run yet; `worldline litmus` hammers the links for torn wide stores"
    found = [
        f"{tally['torn_128']} of {tally['changes']} {tally['kind']} of 128 bytes torn"
        for tally in verdict["tallies"]
    ]
    return f"litmus of {verdict['date']}: {', '.join(found)}"
