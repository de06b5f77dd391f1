"""Run seeds by hand: build in a temporary folder, print each failure."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.host_cuda.simulator.bugs import BUGS
from tests.host_cuda.simulator.build import SCENARIOS, Simulator


def main() -> int:
    """Read the command line; return 1 if a seed failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.host_cuda.simulator", description=__doc__
    )
    parser.add_argument("--scenario", choices=SCENARIOS, default="mixed")
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant it, in its own scenario")
    parser.add_argument("--seeds", default="0:10", help="first:end")
    parser.add_argument("--list-bugs", action="store_true")
    options = parser.parse_args()
    if options.list_bugs:
        print(*sorted(BUGS), sep="\n")
        return 0
    first, end = map(int, options.seeds.split(":"))
    scenario = BUGS[options.bug].scenario if options.bug else options.scenario
    with tempfile.TemporaryDirectory(prefix="worldline-") as place:
        done = Simulator(Path(place)).run(scenario, first, end, options.bug)
    for seed, what in done.failures.items():
        print(f"seed {seed}: {what}")
    print(f"{done.seeds} seeds, {done.steps} steps, {len(done.failures)} failures")
    return int(bool(done.failures))


if __name__ == "__main__":
    sys.exit(main())
