"""``worldline explain``: which algorithm a call would run, without running it."""

from __future__ import annotations

import argparse
import json

from rich.console import Console
from rich.table import Table

from worldline.autotune.choose import COLLECTIVES, choose
from worldline.explanation import Explanation, explain
from worldline.kernels.parts import default_op
from worldline.kernels.registry import Request, dtype_name
from worldline.lines import foretell
from worldline.primitives.arguments import whole_number
from worldline.primitives.errors import InvalidArgument
from worldline.primitives.layout import MAX_WORLD, ArenaLayout
from worldline.primitives.memory import PROVIDERS
from worldline.screen import counted, say
from worldline.startup import default_provider
from worldline.units import parse_dtype, parse_size, show_size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    parser.add_argument(
        "collective",
        nargs="?",
        default="all_reduce",
        type=lambda name: name.replace("-", "_"),
        choices=COLLECTIVES,
    )
    parser.add_argument("--size", default="64K", help="bytes of each rank's input, such as 64K")
    parser.add_argument("--dtype", default="bf16", help="such as f32, f16, bf16")
    parser.add_argument("--op", help="default: sum, for what reduces")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--provider", choices=PROVIDERS, help="default: what this machine has")
    parser.add_argument("--algorithm", help="ask for one by name")
    parser.add_argument("--arena", help="bytes of each rank's arena, such as 8M")
    parser.add_argument("--json", action="store_true", help="print one JSON document, no text")


def main(args: argparse.Namespace) -> int:
    """Print the explanation; returns the exit status."""
    dtype, nbytes = parse_dtype(args.dtype), parse_size(args.size)
    ranks = whole_number("ranks", args.ranks, 1, MAX_WORLD)
    provider = PROVIDERS[args.provider or default_provider(ranks)]()
    layout = ArenaLayout(ranks, _arena(args.arena) or provider.default_bytes(ranks))
    request = Request(
        args.collective,
        dtype,
        default_op(args.collective) if args.op is None else args.op,
        max(1, nbytes // dtype.itemsize),
        ranks,
        provider.device_type,
        *(foretell(ranks) if provider.name == "torch" and ranks > 1 else ("", "")),
    )
    choice = choose(request, args.algorithm)
    # Loopback counts the blocks that fit beside the other ranks' once it has a GPU.
    capped = provider.name != "loopback"
    explanation = explain(request, choice, layout, provider.name, capped=capped)
    if args.json:
        print(json.dumps(explanation.as_dict(), indent=2))
    else:
        _show(explanation, Console())
    return 0


def _arena(typed: str | None) -> int | None:
    """Return the bytes of an arena by option, under whose name what is wrong with them is told."""
    if typed is None:
        return None
    nbytes = parse_size(typed, "arena")
    try:
        return ArenaLayout(1, nbytes).size
    except InvalidArgument as error:
        raise InvalidArgument("arena", typed, error.rule) from None


def _show(explanation: Explanation, console: Console) -> None:
    choice, request = explanation.choice, explanation.request
    dtype = dtype_name(request.dtype)
    say(
        console,
        f"{request.collective}, {show_size(request.nbytes)} of {dtype}, "
        f"{counted(request.world_size, 'rank')}, provider {explanation.provider}: "
        f"{choice.algorithm.name}",
        style="bold",
    )
    say(console, choice.algorithm.summary, indent=1)
    say(console, f"why: {choice.reason}", indent=1)
    say(
        console,
        f"{explanation.launch_words}; {show_size(explanation.scratch_bytes)} of scratch",
        indent=1,
    )
    for name, reason in choice.refused:
        say(console, f"refused {name}: {reason}", indent=1)
    say(console, "arena of each rank:", indent=1)
    table = Table()
    for heading in ("region", "offset", "bytes"):
        table.add_column(heading, justify="left" if heading == "region" else "right")
    for region in explanation.regions:
        table.add_row(region.name, str(region.offset), str(region.size))
    console.print(table)
