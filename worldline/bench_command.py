"""``worldline bench``: measure, show a table, keep the result."""

from __future__ import annotations

import argparse
import datetime
import json
import os
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from worldline.bench import all_reduce
from worldline.kernels.registry import dtype_name
from worldline.launch import spawn
from worldline.primitives.errors import InvalidArgument
from worldline.primitives.fingerprint import fingerprint
from worldline.primitives.memory import PROVIDERS
from worldline.progress import file_progress
from worldline.screen import counted, say
from worldline.startup import default_provider
from worldline.units import parse_dtype, parse_size, show_size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    parser.add_argument("collective", choices=["all-reduce"])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--provider", choices=PROVIDERS, help="default: what this machine has")
    parser.add_argument("--sizes", default="1K,16K,128K", help="bytes, such as 1K,64K,1M")
    parser.add_argument("--dtypes", default="bf16", help="such as f32,f16,bf16")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--save", type=Path, help="write the result to this file as well")
    parser.add_argument("--json", action="store_true", help="print one JSON document, no text")


def main(args: argparse.Namespace) -> int:
    """Measure and print; returns 1 if any algorithm's bits were wrong."""
    if args.repeats < 1:
        raise InvalidArgument("repeats", args.repeats, "must be at least 1")
    sizes = [parse_size(size) for size in args.sizes.split(",")]
    dtypes = [dtype_name(parse_dtype(name)) for name in args.dtypes.split(",")]
    if args.save:
        _check_writable(args.save)
    provider = args.provider or default_provider(args.ranks)
    console = Console(stderr=True)
    with file_progress("measuring", len(sizes) * len(dtypes), console) as steps:
        rows = spawn(_rank, args.ranks, (sizes, dtypes, args.repeats, steps), provider=provider)[0]
    result = {
        "collective": "all_reduce",
        "ranks": args.ranks,
        "provider": provider,
        "note": all_reduce.INTERPRETER_NOTE if provider == "host" else None,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "fingerprint": fingerprint(),
        "rows": rows,
    }
    text = json.dumps(result, indent=2)
    if args.save:
        args.save.write_text(text + "\n")
    if args.json:
        print(text)
    else:
        _show(result, Console())
    return int(any(row["exact"] is False for row in rows))


def _rank(
    world: Any, sizes: list[int], dtypes: list[str], repeats: int, steps: str
) -> list[dict[str, Any]]:
    """Measure on one rank; rank 0 appends a byte to ``steps`` after each point."""

    def progress() -> None:
        with open(steps, "ab") as file:
            file.write(b".")

    return all_reduce.measure(world, sizes, dtypes, repeats, progress if world.rank == 0 else None)


def _check_writable(file: Path) -> None:
    """Refuse a file that could not be written, before minutes of measuring rather than after."""
    able = file.is_file() if file.exists() else file.parent.is_dir()
    if not able or not os.access(file if file.exists() else file.parent, os.W_OK):
        raise InvalidArgument("save", str(file), "must be a writable file, in a folder that exists")


def _show(result: dict[str, Any], console: Console) -> None:
    ranks = counted(result["ranks"], "rank")
    say(console, f"all-reduce, {ranks}, provider {result['provider']}")
    table = Table()
    for heading in ("dtype", "size", "algorithm", "bits", "time (us)", "spread"):
        left = heading in ("dtype", "algorithm")
        table.add_column(heading, justify="left" if left else "right")
    for row in result["rows"]:
        table.add_row(
            row["dtype"],
            show_size(row["nbytes"]),
            row["algorithm"],
            {True: "equal", False: "WRONG", None: "-"}[row["exact"]],
            row["reason"] or f"{row['microseconds']:.0f}",
            "" if row["reason"] else f"{row['spread']:.0%}",
        )
    console.print(table)
    if result["note"]:
        say(console, result["note"])
