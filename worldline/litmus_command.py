"""``worldline litmus``: look for wide stores over the links that are seen in pieces."""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from worldline.kernels.litmus import Tally, add, hammer
from worldline.launch import spawn
from worldline.primitives.arguments import seconds
from worldline.primitives.cubin_cache import cache_folder
from worldline.primitives.errors import ProviderError
from worldline.primitives.fingerprint import fingerprint
from worldline.screen import say

_HARDWARE = ("driver", "gpus")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    parser.add_argument("--ranks", type=int, help="default: one for each GPU")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each kind of access")
    parser.add_argument("--json", action="store_true", help="print one JSON document, no text")


def main(args: argparse.Namespace) -> int:
    """Hammer, print, keep the verdict; returns 1 if a line was seen in pieces."""
    duration = seconds("seconds", args.seconds)
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    ranks = gpus if args.ranks is None else args.ranks
    if gpus < 2 or not 2 <= ranks <= gpus:
        raise ProviderError(
            f"the litmus needs 2 ranks or more, each with a GPU of its own: there are {ranks}, and "
            f"torch sees {gpus} GPUs"
        )
    seen = spawn(hammer, ranks, (duration,), provider="torch")
    tallies, machine = add(tally for rank in seen for tally in rank), fingerprint()
    verdict = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "ranks": ranks,
        "seconds": duration,
        "hardware": {name: machine[name] for name in _HARDWARE},
        "tallies": [tally.as_dict() for tally in tallies],
    }
    keep(verdict)
    if args.json:
        print(json.dumps(verdict, indent=2))
    else:
        _show(tallies, Console())
    return int(any(tally.torn_128 for tally in tallies))


def verdict_file(machine: dict[str, Any]) -> Path:
    """Return where the verdict on a machine's hardware is kept."""
    hardware = json.dumps({name: machine[name] for name in _HARDWARE}, sort_keys=True)
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


def in_words(verdict: dict[str, Any] | None) -> str:
    """Say in one line what is known of the links."""
    if verdict is None:
        return "litmus: not run yet; `worldline litmus` hammers the links for torn wide stores"
    found = [
        f"{tally['torn_128']} of {tally['changes']} {tally['kind']} of 128 bytes torn"
        for tally in verdict["tallies"]
    ]
    return f"litmus of {verdict['date']}: {', '.join(found)}"


def _show(tallies: list[Tally], console: Console) -> None:
    table = Table()
    for heading in ("access", "looks", "changes", "torn 8 B", "torn 16 B", "torn 128 B", "at most"):
        table.add_column(heading, justify="left" if heading == "access" else "right")
    for tally in tallies:
        table.add_row(
            tally.kind,
            f"{tally.looks:.2e}",
            f"{tally.changes:.2e}",
            str(tally.torn_8),
            str(tally.torn_16),
            str(tally.torn_128),
            "-" if tally.torn_128 else f"{tally.bound:.0e}",
        )
    console.print(table)
    say(console, "changes: looks that found a new number in a line, each a chance to see it torn")
    say(console, "at most: the share of torn lines that is still possible, with 95 % confidence")
