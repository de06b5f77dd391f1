"""``worldline bench limits``: the hardware's own times, and how near an all-reduce comes."""

from __future__ import annotations

import argparse
import datetime
import json

import torch
from rich.console import Console
from rich.table import Table

from worldline.bench.limits import measure, ratios
from worldline.launch import spawn
from worldline.primitives.errors import ProviderError
from worldline.primitives.fingerprint import fingerprint
from worldline.screen import say

_MEANINGS = {
    "load": "a load that hits the own L2",
    "remote load": "a load from the peer's memory",
    "fence": "a store and a fence for the whole system",
    "store": "a store, until the peer that polls sees it",
    "ll loop": "an LL all-reduce of 8 bytes, looped inside one kernel",
    "hand-over": "an empty kernel in a graph, launched dependently",
    "all-reduce": "ll_one_shot_cuda on 1 KB in a graph",
}
_BOUNDS = {
    "loop to bound": "the loop, to a store and a load",
    "loop to paper": "the loop, to the paper's bound: a store and two loads",
    "graph to paper": "1 KB in a graph, to that bound and the hand-over",
}


def main(args: argparse.Namespace) -> int:
    """Measure on two GPUs and print."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if gpus < 2:
        raise ProviderError(f"the limits are those of two GPUs: torch sees {gpus}")
    times = spawn(measure, 2, (args.repeats,), provider="torch")[0]
    result = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "fingerprint": fingerprint(),
        "nanoseconds": times,
        "ratios": ratios(times),
    }
    text = json.dumps(result, indent=2)
    if args.save:
        args.save.write_text(text + "\n")
    if args.json:
        print(text)
    else:
        show(times, Console())
    return 0


def show(times: dict[str, float], console: Console) -> None:
    """Print what was measured, and the ratios."""
    table = Table()
    table.add_column("what")
    table.add_column("ns", justify="right")
    for name, meaning in _MEANINGS.items():
        table.add_row(meaning, f"{times[name]:.0f}")
    console.print(table)
    for name, ratio in ratios(times).items():
        say(console, f"{_BOUNDS[name]}: {ratio:.2f}")
