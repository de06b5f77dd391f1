"""The command line: demo, bench, explain, doctor, litmus."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from worldline import bench_command, doctor, explain_command, litmus_command
from worldline._version import __version__
from worldline.demo import run as demo
from worldline.failures import last_line, own_error
from worldline.primitives.errors import RankFailed, WorldlineError


def build_parser() -> argparse.ArgumentParser:
    """Make the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="worldline", description="Low-latency device-side collectives in Triton and CUDA."
    )
    parser.add_argument("--version", action="version", version=f"worldline {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, module, text in (
        ("demo", demo, "run a real model tensor-parallel through World.all_reduce"),
        ("bench", bench_command, "measure a collective beside its peers"),
        ("explain", explain_command, "say which algorithm a call would run, and why"),
        ("doctor", doctor, "say what this machine has, what works here and what is missing"),
        ("litmus", litmus_command, "hammer the links for wide stores that are seen in pieces"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        module.add_arguments(command)
        command.set_defaults(run=module.main)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments, by default the process's own.
    """
    args = build_parser().parse_args(argv)
    try:
        return int(args.run(args))
    except WorldlineError as error:
        # Ctrl-C reaches the ranks too, and Python may lose this process's own: in a finaliser, say.
        if isinstance(error, RankFailed) and last_line(error.reason) == "KeyboardInterrupt":
            return 130
        print(f"worldline {args.command}: {_describe(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _describe(error: WorldlineError) -> str:
    """Say what went wrong: one line, but for a failure inside a rank that is not of our naming."""
    if isinstance(error, RankFailed) and (line := own_error(error.reason)):
        return f"rank {error.rank}: {line}"
    return f"{type(error).__name__}: {error}"
