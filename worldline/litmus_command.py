"""``worldline litmus``: look for wide stores over the links that are seen in pieces."""

from __future__ import annotations

import argparse
import json

import torch
from rich.console import Console
from rich.table import Table

from worldline.kernels.litmus import TALLIES, Tally
from worldline.kernels.litmus_verdict import keep
from worldline.launch import spawn
from worldline.lines import litmus
from worldline.primitives.arguments import seconds
from worldline.primitives.errors import ProviderError
from worldline.screen import say


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
    verdict = spawn(litmus, ranks, (duration,), provider="torch")[0]
    keep(verdict)
    tallies = [Tally(*(told[name] for name in ("kind", *TALLIES))) for told in verdict["tallies"]]
    if args.json:
        print(json.dumps(verdict, indent=2))
    else:
        _show(tallies, Console())
    return int(any(tally.torn_128 for tally in tallies))


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
