"""``worldline bench``: measure, show a table, keep the result."""

from __future__ import annotations

import argparse
import datetime
import json
import os
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from worldline import limits_command
from worldline.bench.all_gather import measure_all_gather
from worldline.bench.all_reduce import measure_all_reduce
from worldline.bench.points import INTERPRETER_NOTE
from worldline.bench.rows import ratios
from worldline.bench_plot import check_drawable, plot
from worldline.kernels.numerics import OPS
from worldline.kernels.registry import dtype_name
from worldline.launch import spawn
from worldline.primitives.errors import InvalidArgument
from worldline.primitives.fingerprint import fingerprint
from worldline.primitives.memory import PROVIDERS
from worldline.progress import file_progress
from worldline.screen import counted, say
from worldline.startup import default_provider
from worldline.units import parse_dtype, parse_size, show_size

_MEASURES = {"all-reduce": measure_all_reduce, "all-gather": measure_all_gather}
FAMILIES = ("NCCL", "PyTorch")
"""Peers that the result compares us with, by what their names begin with."""
_HEADINGS = ("dtype", "size", "algorithm", "bits", "time", "spread", "replay", "host", "SMs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    parser.add_argument(
        "what",
        type=lambda name: name.replace("_", "-"),
        choices=[*_MEASURES, "limits"],
        help="limits: of the hardware",
    )
    parser.add_argument("--ranks", type=int, help="default: one for each GPU, else 4 on the CPU")
    parser.add_argument("--provider", choices=PROVIDERS, help="default: what this machine has")
    parser.add_argument("--sizes", default="1K,16K,128K", help="bytes, such as 1K,64K,1M")
    parser.add_argument("--dtypes", default="bf16", help="such as f32,bf16,float8_e4m3fn,int8")
    parser.add_argument("--op", choices=OPS, help="of the all-reduce; default: sum")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="MODULE",
        help="measure another library too, by a module with make(); may be repeated",
    )
    parser.add_argument("--save", type=Path, help="write the result to this file as well")
    parser.add_argument("--plot", type=Path, help="draw it into this file, such as bench.svg")
    parser.add_argument("--json", action="store_true", help="print one JSON document, no text")


def main(args: argparse.Namespace) -> int:
    """Measure and print; returns 1 if any algorithm's bits were wrong."""
    if args.repeats < 1:
        raise InvalidArgument("repeats", args.repeats, "must be at least 1")
    if args.what == "limits":
        return limits_command.main(args)
    if args.op is not None and args.what != "all-reduce":
        raise InvalidArgument("op", args.op, f"must be left out: an {args.what} has none")
    sizes = [parse_size(size) for size in args.sizes.split(",")]
    dtypes = [dtype_name(parse_dtype(name)) for name in args.dtypes.split(",")]
    for argument in ("save", "plot"):
        if getattr(args, argument):
            _check_writable(argument, getattr(args, argument))
    if args.plot:
        check_drawable(args.plot)
    ranks = args.ranks
    if ranks is None:
        on_gpus = (args.provider or default_provider()) != "host"
        ranks = max(1, torch.cuda.device_count()) if on_gpus else 4
    provider = args.provider or default_provider(ranks)
    if provider == "loopback":
        rule = "the bench needs a process to a rank: fewer --ranks, or --provider host"
        raise InvalidArgument("provider", provider, rule)
    console = Console(stderr=True)
    with file_progress("measuring", len(sizes) * len(dtypes), console) as steps:
        work = (args.what, sizes, dtypes, args.op, args.repeats, args.peer, steps)
        rows = spawn(_rank, ranks, work, provider=provider)[0]
    result = {
        "collective": args.what.replace("-", "_"),
        "op": (args.op or "sum") if args.what == "all-reduce" else None,
        "ranks": ranks,
        "provider": provider,
        "note": INTERPRETER_NOTE if provider == "host" else None,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "fingerprint": fingerprint(),
        "ratios": {family: ratios(rows, family) for family in FAMILIES},
        "replay_ratios": {
            family: ratios(rows, family, "replay_microseconds") for family in FAMILIES
        },
        "rows": rows,
    }
    text = json.dumps(result, indent=2)
    if args.save:
        args.save.write_text(text + "\n")
    if args.json:
        print(text)
    else:
        _show(result, Console())
    if args.plot:
        plot(result, args.plot)
    return int(any(row["exact"] is False for row in rows))


def _rank(
    world: Any,
    what: str,
    sizes: list[int],
    dtypes: list[str],
    op: str | None,
    repeats: int,
    modules: list[str],
    steps: str,
) -> list[dict[str, Any]]:
    """Measure on one rank; rank 0 appends a byte to ``steps`` after each point."""

    def progress() -> None:
        with open(steps, "ab") as file:
            file.write(b".")

    tell = progress if world.rank == 0 else None
    return _MEASURES[what](world, sizes, dtypes, repeats, modules, tell, op)


def _check_writable(argument: str, file: Path) -> None:
    """Refuse a file that could not be written, before minutes of measuring rather than after."""
    able = file.is_file() if file.exists() else file.parent.is_dir()
    if not able or not os.access(file if file.exists() else file.parent, os.W_OK):
        raise InvalidArgument(
            argument, str(file), "must be a writable file, in a folder that exists"
        )


def _show(result: dict[str, Any], console: Console) -> None:
    ranks = counted(result["ranks"], "rank")
    op = "" if result["op"] in (None, "sum") else f" ({result['op']})"
    say(
        console,
        f"{result['collective'].replace('_', '-')}{op}, {ranks}, provider {result['provider']}",
    )
    cells = [
        (
            row["dtype"],
            show_size(row["nbytes"]),
            row["algorithm"],
            {True: "equal", False: "WRONG", None: "-"}[row["exact"]],
            *_numbers(row),
        )
        for row in result["rows"]
    ]
    # Without what the CPU has not, the table fits a terminal.
    filled = [place for place, column in enumerate(zip(*cells, strict=True)) if any(column)]
    table = Table()
    for heading in (_HEADINGS[place] for place in filled):
        left = heading in ("dtype", "algorithm")
        # Names that are cut short could not be told apart.
        table.add_column(heading, justify="left" if left else "right", overflow="fold")
    for row in cells:
        table.add_row(*(row[place] for place in filled))
    console.print(table)
    if result["note"]:
        say(console, "time: microseconds an operation")
    else:
        say(console, "microseconds an operation: in a graph, in a graph replayed on an idle GPU,")
        say(console, "and of the host thread in an eager call")
    for family, found in result["ratios"].items():
        for point, ratio in found.items() if not result["note"] else ():
            replayed = result["replay_ratios"][family][point]
            words = f"{point} bytes: {ratio:.2f} of the best of {family}, {replayed:.2f} replayed"
            say(console, words)
    if result["note"]:
        say(console, result["note"])


def _numbers(row: dict[str, Any]) -> tuple[str, ...]:
    """Show a row's times; three digits say all that one run knows."""
    if row["reason"]:
        return row["reason"], "", "", "", ""
    times = [row[f"{kind}microseconds"] for kind in ("", "replay_", "host_")]
    first, *others = ["" if time is None else f"{time:.3g}" for time in times]
    return first, f"{row['spread']:.0%}", *others, str(row["sms"] or "")
